"""The objects that all parts of a simulated cluster share."""

from dataclasses import dataclass, field

from simulation.name_server import NameServer
from simulation.network import Network
from simulation.popped import Deliveries
from simulation.scheduler import MS, Scheduler
from simulation.splitmix import SplitMix64
from simulation.truth import Truth


@dataclass(slots=True)
class World:
    """The clock, random numbers, network, name server and truth of a simulated cluster."""

    scheduler: Scheduler
    random: SplitMix64
    network: Network
    name_server: NameServer
    truth: Truth
    deliveries: Deliveries = field(default_factory=Deliveries)
    """Deliveries of popped messages."""
    every_step: bool = False
    """Simulate every pull, also where it could be computed (`quiet_queue`)."""

    @property
    def true_ms(self) -> int:
        """The true time; epoch milliseconds."""
        return self.scheduler.now // MS
