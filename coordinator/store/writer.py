"""The one thread that works on the store's database: whatever is queued becomes one transaction (group commit).

Callers queue operations and go on. The thread takes all that has gathered, runs it in order inside one transaction,
commits, and only then gives each operation its answer; while a commit waits for the disk the next batch gathers, so a
thousand updates cost a handful of syncs and a lone one waits for no timer. A batch that fails is rolled back as a
whole and the writer is over: `on_failed` hears of it once, later operations are dropped, reads raise. Operations that
are queued together are in one batch. Where the disk is full and a writer was told to wait for space, a batch that was
rolled back is run again, as a whole, until there is room for it: nothing of it was answered, so nothing has changed but
the time.

A database in memory waits for no disk, so it has no such thread: what is queued is carried out at once by the caller.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

import msgspec

from coordinator.store.schema import StoreError
from models.failpoints import reach

READ_TIMEOUT_S = 60.0
"""How long a read waits for its turn behind the commits queued before it."""

SPACE_EVERY_S = 0.5
"""How often a full disk is tried again."""

CLOSE_TIMEOUT_S = 30.0
"""How long closing waits for what is queued to be committed."""

Callback = Callable[[], None]
T = TypeVar("T")


class _Write(msgspec.Struct, frozen=True):
    """A change: `run` inside the transaction, what that returned after the commit, then `on_durable` by `notify`."""

    run: Callable[[sqlite3.Connection], Callback | None]
    on_durable: Callback | None


class _Read(msgspec.Struct, frozen=True):
    """A question; it sees every operation queued before it and is answered once those are durable."""

    run: Callable[[sqlite3.Connection], Any]
    answer: Future[Any]


class Writer:
    """Runs operations on a connection that it alone uses from now on and closes at its end."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        notify: Callable[[Callback], None],
        on_failed: Callable[[StoreError], None],
        explain: Callable[[Exception], StoreError],
        waits_for_disk: bool = True,
    ) -> None:
        """Start the thread if there is a disk to wait for.

        See `Store` for `notify` and `on_failed`; `explain` words a failure.
        """
        self._connection = connection
        self._notify = notify
        self._on_failed = on_failed
        self._explain = explain
        self._queue: queue.SimpleQueue[Sequence[_Write | _Read] | None] = queue.SimpleQueue()
        self._gathered: list[_Write] | None = None
        self._failure: StoreError | None = None
        self._is_told = False
        self._closed = False
        self._tell: Callable[[str], None] | None = None
        self.is_short = False
        """Whether a batch waits for space now."""
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True) if waits_for_disk else None
        if self._thread is not None:
            self._thread.start()

    def write(self, run: Callable[[sqlite3.Connection], Callback | None], on_durable: Callback | None = None) -> None:
        """Queue a change and wait for no disk; what `run` returns is called after the commit, by who committed."""
        if self._closed:
            raise StoreError("the store was written after it was closed, a fault of this program")
        operation = _Write(run, on_durable)
        if self._gathered is None:
            self._put([operation])
        else:
            self._gathered.append(operation)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Queue the changes written inside as one at its end, so that a kill leaves all of them or none."""
        gathered: list[_Write] = []
        self._gathered = gathered
        try:
            yield
        finally:
            self._gathered = None
        self._put(gathered)

    def read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Wait for the answer to a question, from any thread but the writer's own.

        Raises:
            StoreError: the writer has failed, is closed or gives no answer within `READ_TIMEOUT_S`.
        """
        if self._closed:
            raise StoreError("the store was read after it was closed, a fault of this program")
        answer: Future[T] = Future()
        self._put([_Read(run, answer)])
        try:
            return answer.result(READ_TIMEOUT_S)
        except FutureTimeoutError:
            raise self._explain(TimeoutError(f"no answer within {READ_TIMEOUT_S:.0f} s")) from None

    def wait_for_space(self, tell: Callable[[str], None]) -> None:
        """From now on wait for space where the disk is full; `tell` hears, by `notify`, when that begins and ends."""
        if self._thread is not None:
            self._tell = tell

    def wait_no_more(self) -> None:
        """Fail from now on where the disk is full."""
        self._tell = None

    @property
    def is_at_work(self) -> bool:
        """Whether the thread still has the connection."""
        return self._thread is not None and self._thread.is_alive()

    def close(self) -> None:
        """Commit what is queued and end the thread; a second call does nothing.

        Raises:
            StoreError: the disk did not take it, or not within `CLOSE_TIMEOUT_S`; a failure that was told before is not
                told again.
        """
        told = self._failure if self._is_told else None
        self.wait_no_more()
        if not self._closed:
            self._closed = True
            if self._thread is None:
                self._connection.close()
            else:
                self._queue.put(None)
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)
            if self._thread.is_alive():
                raise self._explain(TimeoutError(f"not closed within {CLOSE_TIMEOUT_S:.0f} s"))
        if self._failure is not told and self._failure is not None:
            self._is_told = True
            raise self._failure

    def _put(self, operations: Sequence[_Write | _Read]) -> None:
        self._queue.put(operations)
        if self._thread is None:
            self._step()

    def _serve(self) -> None:
        try:
            # A step is a call of its own so that no local of it holds on to buffers while the queue is empty.
            while self._step():
                pass
        finally:
            self._connection.close()

    def _step(self) -> bool:
        """Settle one batch; return whether another may follow."""
        batch, last = self._take()
        answers = self._commit(batch)
        if answers is None:
            self._refuse(batch)
        else:
            for operation, answer in zip(batch, answers, strict=True):
                self._settle(operation, answer)
        return not last

    def _take(self) -> tuple[list[_Write | _Read], bool]:
        """Wait for an operation; return all that are queued and whether the end of the queue was among them."""
        batch: list[_Write | _Read] = []
        operations = self._queue.get()
        while operations is not None:
            batch += operations
            try:
                operations = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit(self, batch: list[_Write | _Read]) -> list[Any] | None:
        """Run a batch as one transaction; return what each operation returned, None if the writer is over."""
        if self._failure is not None:
            return None
        try:
            return self._transact_with_space(batch)
        except Exception as error:  # whatever it was must reach `on_failed`, not end the thread unheard
            failure = self._failure = error if isinstance(error, StoreError) else self._explain(error)
            self._notify(lambda: self._tell_failed(failure))
            return None

    def _tell_failed(self, failure: StoreError) -> None:
        self._is_told = True
        self._on_failed(failure)

    def _transact_with_space(self, batch: list[_Write | _Read]) -> list[Any]:
        """Run a batch as one transaction, again and again while the disk is full and that is waited for."""
        told: Callable[[str], None] | None = None
        while True:
            try:
                answers = self._transact(batch)
                break
            except Exception as error:
                failure, tell = self._explain(error), self._tell
                self.is_short = failure.is_full and tell is not None
                if not failure.is_full or tell is None:
                    raise failure from error
                if told is None:
                    self._notify(functools.partial(tell, f"{failure}: the run waits, and goes on when there is room"))
                told = tell
                self._roll_back()
                time.sleep(SPACE_EVERY_S)
        self.is_short = False
        if told is not None:
            self._notify(functools.partial(told, "the disk has room again: the run goes on"))
        return answers

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # SQLite may have done so itself
            self._connection.execute("ROLLBACK")

    def _transact(self, batch: list[_Write | _Read]) -> list[Any]:
        changes = any(isinstance(operation, _Write) for operation in batch)
        self._connection.execute("BEGIN IMMEDIATE" if changes else "BEGIN")
        answers = [operation.run(self._connection) for operation in batch]
        reach("store.written")
        self._connection.execute("COMMIT")
        reach("store.committed")
        return answers

    def _settle(self, operation: _Write | _Read, answer: Any) -> None:
        if isinstance(operation, _Read):
            operation.answer.set_result(answer)
            return
        if answer is not None:
            answer()
        if operation.on_durable is not None:
            self._notify(operation.on_durable)

    def _refuse(self, batch: list[_Write | _Read]) -> None:
        """Answer the reads of a batch that was not committed; its changes are never acknowledged."""
        is_full = self._failure is not None and self._failure.is_full
        for operation in batch:
            if isinstance(operation, _Read):
                operation.answer.set_exception(StoreError(str(self._failure), is_full))
