"""What a store promises, as checks that anybody's store can run."""

from __future__ import annotations

from gnomon.testing._storage_audit import StorageAudit
from gnomon.testing._storage_blobs import StorageBlobs
from gnomon.testing._storage_content import StorageContent
from gnomon.testing._storage_faults import StorageFaults
from gnomon.testing._storage_ledger import StorageLedger
from gnomon.testing._storage_moving import StorageMoving
from gnomon.testing._storage_names import StorageNames
from gnomon.testing._storage_paging import StoragePaging
from gnomon.testing._storage_processes import StorageProcesses
from gnomon.testing._storage_retention import StorageRetention
from gnomon.testing._storage_rows import StorageRows
from gnomon.testing._storage_runnable import StorageRunnable
from gnomon.testing._storage_tenants import StorageTenants
from gnomon.testing._storage_watching import StorageWatching

__all__ = ["StorageContract"]


class StorageContract(
    StorageLedger,
    StorageRows,
    StoragePaging,
    StorageRunnable,
    StorageContent,
    StorageNames,
    StorageTenants,
    StorageAudit,
    StorageRetention,
    StorageBlobs,
    StorageMoving,
    StorageWatching,
    StorageFaults,
    StorageProcesses,
):
    """The suite of `Storage`: D1 to D12, for every method.

        class TestAcme(StorageContract):
            @asynccontextmanager
            async def open(self):
                storage = AcmeStorage(fresh_url())
                await storage.migrate()
                yield storage
                await storage.close()

            def url(self, storage):
                return storage.url

    `open` gives a store that is empty and migrated. With `url`, other processes
    write to the same store beside this one; `fresh_url`, `interrupt`, `tamper`
    and `make_newer` let the suite do more. A check that needs what a back end
    does not offer is skipped, and says so.

    With `GNOMON_SOAK=1` the writers write ten times as much.
    """
