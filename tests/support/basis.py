"""The basis of a run of the job, for tests."""

from checkpoints.manifest import Basis
from rebalance_model.observe.policy import Policy

BASIS = Basis(source="files /log", partitions=8, state_partitions=2, code_version="1.0", policy=Policy())
