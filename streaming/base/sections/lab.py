"""The settings of the lab: its servers, and its consumer groups."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from streaming.base.sections.section import Section


class LabGroup(Section):
    """A consumer group of the lab and its topic; `queues` is the number of queues on each broker."""

    group: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    ordered: bool
    queues: int = Field(ge=1, le=64)
    consumers: int = Field(ge=0, le=16)


PopClient = Literal["remoting", "grpc-push", "grpc-simple"]
"""The ways in which a consumer pops: as a push consumer from the brokers, or as one of gRPC's consumers through the
proxy."""


class PopGroup(LabGroup):
    """A consumer group that pops; `ordered`: the brokers keep the order of each queue (consumeMessageOrderly)."""

    client: PopClient

    @field_validator("client")
    @classmethod
    def _fits(cls, client: PopClient, info: ValidationInfo) -> PopClient:
        if client == "remoting" and info.data.get("ordered"):
            raise ValueError("should be a client of gRPC: a remoting client pops in no order")
        return client


Replication = Literal["none", "slave", "acting", "controller"]
"""The kinds of replication of a lab's brokers (`streaming.lab.servers`)."""


GroupKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*$")]


class LabSettings(Section):
    """The lab; the key of a group is the prefix of its consumers' names."""

    brokers: int = Field(ge=1, le=8)
    replication: Replication
    broker: dict[str, str | int | float | bool]
    """Further properties of broker.conf."""
    hook: bool
    kafka: bool
    secure: bool
    pop: bool
    messages_per_second: float = Field(gt=0, le=100)
    groups: dict[GroupKey, LabGroup] = Field(min_length=1)
    pop_groups: dict[GroupKey, PopGroup] = Field(min_length=1)
    """The groups that pop, which only a lab with `pop` has."""

    @field_validator("pop_groups")
    @classmethod
    def _are_others(cls, pop_groups: dict[str, PopGroup], info: ValidationInfo) -> dict[str, PopGroup]:
        if twice := pop_groups.keys() & info.data.get("groups", {}).keys():
            raise ValueError(f"should have other keys than lab.groups: {', '.join(sorted(twice))}")
        return pop_groups
