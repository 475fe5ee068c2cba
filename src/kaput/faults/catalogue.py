"""All faults. A new fault is a file in this package, a line here, and a name in the scenario model."""

from __future__ import annotations

from kaput.faults.bandwidth import Bandwidth
from kaput.faults.clock_skew import ClockSkew
from kaput.faults.cpu_pressure import CpuPressure
from kaput.faults.cut import Cut
from kaput.faults.delay import Delay
from kaput.faults.delete_records import DeleteRecords
from kaput.faults.disk_error import DiskError
from kaput.faults.disk_full import DiskFull
from kaput.faults.disk_stall import DiskStall
from kaput.faults.fault import Fault
from kaput.faults.flap import Flap
from kaput.faults.grow import Grow
from kaput.faults.isolate import Isolate
from kaput.faults.kill import Kill, KillProducer
from kaput.faults.loss import PacketLoss
from kaput.faults.memory_pressure import MemoryPressure
from kaput.faults.noop import Noop
from kaput.faults.partition import Partition
from kaput.faults.pause import Pause
from kaput.faults.power_loss import PowerLoss
from kaput.faults.protocol import Protocol
from kaput.faults.reassign import Reassign
from kaput.faults.recreate import Recreate
from kaput.faults.reset import Reset
from kaput.faults.resize import Resize
from kaput.faults.rolling_restart import RollingRestart
from kaput.faults.rolling_upgrade import RollingUpgrade
from kaput.faults.stop import Stop

_ON_NODES: tuple[type[Fault], ...] = (
    Noop, Kill, PowerLoss, Stop, Pause, RollingRestart, DiskFull, DiskStall, DiskError, CpuPressure,
    ClockSkew, MemoryPressure, Isolate, Cut, Partition, Flap, PacketLoss, Reset, Bandwidth, Delay, Protocol,
)  # fmt: skip
CATALOGUE: dict[str, type[Fault]] = {fault.name: fault for fault in _ON_NODES}
PRODUCER_CATALOGUE: dict[str, type[Pause] | type[Kill]] = {
    Pause.name: Pause,
    Kill.name: KillProducer,
}  # faults on producers
STORE_CATALOGUE: dict[str, type[Kill] | type[Pause] | type[DiskFull]] = {
    Kill.name: Kill,
    Pause.name: Pause,
    DiskFull.name: DiskFull,
}  # faults on stores
TOPIC_CATALOGUE: dict[str, type[Resize] | type[DeleteRecords] | type[Recreate]] = {
    Resize.name: Resize,
    DeleteRecords.name: DeleteRecords,
    Recreate.name: Recreate,
}  # faults on topics
CLUSTER_CATALOGUE: dict[str, type[Grow] | type[Reassign] | type[RollingUpgrade]] = {
    Grow.name: Grow,
    Reassign.name: Reassign,
    RollingUpgrade.name: RollingUpgrade,
}  # faults on the whole cluster
