"""Looking after stores: copying, archives, checking, forgetting. It knows the contract and no back end."""

from gnomon.upkeep._tally import Progress, Tally
from gnomon.upkeep._walk import DEFAULT_TENANT
from gnomon.upkeep.archive import ArchiveReport, check_archive, export, import_
from gnomon.upkeep.copying import CopyReport, copy
from gnomon.upkeep.hashes import memory_hash, session_hash
from gnomon.upkeep.pruning import age, prune
from gnomon.upkeep.sweeping import SweepReport, sweep
from gnomon.upkeep.verifying import Finding, Findings, verify

__all__ = [
    "ArchiveReport",
    "CopyReport",
    "DEFAULT_TENANT",
    "Finding",
    "Findings",
    "Progress",
    "SweepReport",
    "Tally",
    "age",
    "check_archive",
    "copy",
    "export",
    "import_",
    "memory_hash",
    "prune",
    "session_hash",
    "sweep",
    "verify",
]
