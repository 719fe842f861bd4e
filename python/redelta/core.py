"""Problems, plans and the verbs: the delta rule with every choice stated.

A :class:`Problem` names the choices (gate, beta, normalisation, types, layouts); a :class:`Plan` checks
it once and fixes kernels and the cut of the work; its methods are the verbs. Lengths, slots and accepted
counts are arguments of each call. Equations as in :mod:`redelta.operators`; the arithmetic, hence every
bit, is the same for all verbs: prefill = decode = verify + commit.

Shapes (``layout="packed"`` drops the leading B): q, k [B,T,Hk,K]; v, out [B,T,Hv,V]; g [B,T,Hv] per
head or [B,T,Hv,K] per channel; beta [B,T,Hv]; A_log [Hv] and dt_bias [Hv] or [Hv,K] in float32; pools
[slots,Hv,V,K] ("VK") or [slots,Hv,K,V] ("KV"). Slot indices, lengths and accepted counts are int32 [B]
(lengths and cu_seqlens may be int64).

Errors as in :mod:`redelta.operators`: ``TypeError`` and ``ValueError`` with the C library's message, and
nothing written.
"""
from __future__ import annotations

from ctypes import POINTER, byref, c_int32, c_void_p, cast, sizeof
from dataclasses import dataclass
from typing import Any, Callable, cast as typed

import numpy as np

from . import _array, _context, _errors, _lib
from ._frame import Operation, enter
from ._types import (AnyArray, Array, Beta, FloatType, Gate, GateAxis, HeadMap, Layout, Norm, Numerics, PlanInfo,
                     RecordType, StateLayout)

__all__ = ["Problem", "Plan", "Records"]

_CHOICES = {
    "layout": {"padded": 1, "packed": 2},
    "gate": {"none": 1, "log": 2, "lower_bound": 3, "softplus": 4, "decay": 5},
    "gate_axis": {"per_head": 1, "per_channel": 2},
    "beta": {"value": 1, "logit": 2},
    "qk_norm": {"as_is": 1, "l2": 2},
    "head_map": {"grouped": 1, "tiled": 2},
    "numerics": {"exact": 1, "fast": 2},
    "state_layout": {"VK": 1, "KV": 2},
    **{f"{name}_dtype": _lib.DTYPE_CODES for name in
       ("qkv", "gate", "beta", "out", "state", "record", "decay")},
}


def choice(field: str, value: Any) -> int:
    """The C value of a named choice."""
    known = _CHOICES[field]
    if not isinstance(value, str):
        raise _errors.RedeltaTypeError(f"{field}: must be a string, got {_errors.shown(value)}")
    if value not in known:
        raise _errors.RedeltaValueError(f"{field}: must be one of {', '.join(map(repr, known))}, "
                                        f"got {_errors.shown(value)}", 3)
    return known[value]


@dataclass(frozen=True)
class Problem:
    """Everything about a call that does not change from step to step.

    ============  =======================================================================
    Hk, Hv, K, V  key heads, value heads (a multiple of Hk), key size, value size (1..512)
    max_batch     largest number of sequences of any call; -1, the default: any
    max_tokens    longest sequence of any call; -1, the default: any
    layout        "padded": [B,T,...], "packed": [T,...] with cu_seqlens
    gate          "none": a = 1; "log": exp(g); "decay": g;
                  "lower_bound": exp(lower_bound sigmoid(exp(A_log)(g + dt_bias)));
                  "softplus": exp(-exp(A_log) softplus(g + dt_bias))
    gate_axis     "per_channel" (Kimi Delta Attention) or "per_head" (Gated DeltaNet)
    beta          "value" or "logit" (sigmoid in float32); times ``beta_times`` (1 or 2)
    qk_norm       "as_is" or "l2": x / sqrt(sum x^2 + l2_eps)
    scale         None: K^-1/2
    head_map      "grouped": hk = hv // (Hv/Hk); "tiled": hk = hv % Hk
    numerics      "exact" or "fast" (prefill and verify may use inexact forms)
    *_dtype       "float32", "float16", "bfloat16"; record and decay: not bfloat16
    state_layout  "VK" or "KV"
    pad_slot      the slot index that marks a row without a sequence
    ============  =======================================================================
    """

    Hk: int
    Hv: int
    K: int
    V: int
    max_batch: int = -1
    max_tokens: int = -1
    layout: Layout = "padded"
    gate: Gate = "log"
    gate_axis: GateAxis = "per_channel"
    lower_bound: float = -5.0
    beta: Beta = "value"
    beta_times: int = 1
    qk_norm: Norm = "as_is"
    l2_eps: float = 1e-6
    scale: float | None = None
    head_map: HeadMap = "grouped"
    numerics: Numerics = "exact"
    qkv_dtype: FloatType = "float32"
    gate_dtype: FloatType = "float32"
    beta_dtype: FloatType = "float32"
    out_dtype: FloatType = "float32"
    state_layout: StateLayout = "VK"
    state_dtype: FloatType = "float32"
    record_dtype: RecordType = "float32"
    decay_dtype: RecordType = "float32"
    pad_slot: int = -1

    def _struct(self) -> _lib.Problem:
        made = _lib.Problem()
        _lib.lib.rd_problem_init_sized(byref(made), sizeof(made))
        for field in ("Hk", "Hv", "K", "V", "max_batch", "max_tokens", "beta_times", "pad_slot"):
            bits = 32 if field in ("beta_times", "pad_slot") else 64
            setattr(made, field, _errors.integer(field, getattr(self, field), bits))
        for field in _CHOICES:
            setattr(made, field, choice(field, getattr(self, field)))
        made.lower_bound = _errors.number("lower_bound", self.lower_bound)
        made.l2_eps = _errors.number("l2_eps", self.l2_eps)
        made.has_scale = self.scale is not None
        made.scale = 0.0 if self.scale is None else _errors.number("scale", self.scale)
        return made

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """The shape of one slot: (Hv, V, K) or (Hv, K, V)."""
        rows = (self.V, self.K) if self.state_layout == "VK" else (self.K, self.V)
        return (self.Hv, *rows)


def refuse_copy(what: str, instead: str) -> Callable[..., Any]:
    """A ``__reduce_ex__`` for objects that cannot be copied or pickled, with a sentence that says why."""

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        raise _errors.RedeltaTypeError(f"{what} cannot be copied or pickled; {instead}")

    return __reduce_ex__


class Records:
    """Replay records of a verify: what a commit needs to repeat the accepted tokens.

    ``u`` [B,C,Hv,V], ``k`` [B,C,Hk,K] and ``decay`` [B,C,Hv,K] or [B,C,Hv] (None without a gate) are
    arrays of the library chosen in :meth:`Plan.records`, written in place by verify; ``lengths`` says
    how many records each sequence has, ``parents`` which record each one follows.

    A commit consumes them, once; a copy could be committed again. So copying and pickling is refused
    (``TypeError``).
    """

    __reduce_ex__ = refuse_copy("redelta.Records are consumed by one commit and", "Plan.materialize applies "
                                "them without consuming them, Plan.records makes new ones")

    def __init__(self, problem: Problem, u: Array, k: Array, decay: Array | None) -> None:
        self.u, self.k, self.decay = u, k, decay
        self._views: list[_array.View] = []
        self._struct = _lib.Records()
        self._struct.struct_size = sizeof(_lib.Records)
        for name, array in (("u", u), ("k", k), ("decay", decay)):
            if array is None and name == "decay":
                continue
            try:
                view = _array.viewer(type(array), array)(array)
            except _errors.Error as error:
                raise type(error)(f"records.{name}: {error}", error.status) from None
            if view[1]:
                raise _errors.RedeltaValueError(f"records.{name}: is written in place, but the array is "
                                                "read-only")
            tensor = getattr(self._struct, name)
            size = _array.describe(f"records.{name}", view[2], tensor)
            if view[0] % size:
                raise _errors.RedeltaValueError(f"records.{name}: memory is not aligned to {size}", 8)
            tensor.data = view[0]
            self._views.append(view)  # keeps the memory alive
        shape = _array.shape_of(u)
        self.capacity = shape[1] if len(shape) > 1 else 0
        self._lengths = np.zeros(max(shape[0] if shape else 0, 1), np.int32)
        self._batch = shape[0] if shape else 0
        self._struct.lengths = cast(self._lengths.ctypes.data, POINTER(c_int32))
        self._parents = np.full((self._batch, self.capacity), -1, np.int32)
        _array.describe("records.parents", _array._numpy_view(self._parents)[2], self._struct.parents)
        self._struct.parents.data = self._parents.ctypes.data
        self._pointer = byref(self._struct)

    def __repr__(self) -> str:
        made = self._struct.made.magic != 0
        state = "consumed" if self.consumed else f"lengths={self.lengths.tolist()}" if made else "unused"
        return f"Records(batch={self._batch}, capacity={self.capacity}, {state})"

    def _written(self) -> None:
        """Tells autograd, after a verify, that the arrays were written in place."""
        changed = _array.changed
        if changed is not None:
            for view in self._views:
                changed(view[3])

    @property
    def lengths(self) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Records of each sequence after the last verify (a copy)."""
        return self._lengths[:self._batch].copy()

    @property
    def parents(self) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """[B,C] int32: the node that each node of the last verify follows, -1 the checkpoint (a copy). A
        chain's are -1, 0, 1, ...; numbers past a sequence's length mean nothing."""
        return self._parents.copy()

    @property
    def consumed(self) -> bool:
        """Whether a commit has used them already."""
        return bool(self._struct.made.consumed)

    @property
    def nbytes(self) -> int:
        """Bytes of u, k and decay together."""
        total = 0
        for _, _, (dtype, shape, _), _ in self._views:
            total += int(np.prod(shape)) * _lib.DTYPE_SIZES[_array.dtype_code("records", dtype)]
        return total


def _extents(name: str, array: Array) -> tuple:
    try:
        return _array.shape_of(array)
    except _errors.Error as error:
        raise type(error)(f"{name}: {error}", error.status) from None


_ACT = "q k v g beta A_log dt_bias out".split()
_INPUTS = [(name, 1, name) for name in _ACT]
_SEQ = [("cu_seqlens", 0, "cu_seqlens"), ("lengths", 0, "lengths")]
_TREE = ("parents", 0, "parents")
_LEAD = [(_lib.Sequences, None, False), (_lib.Activations, None, False)]
_SLOTS, _SLOTS_OR_NULL = (_lib.Slots, None, False), (_lib.Slots, None, True)
_POINTER, _TENSOR = (None, None, False), (_lib.Tensor, None, False)


def _pair(index: int, pool: str, slots: str) -> list[tuple]:
    return [(pool, index, "pool"), (slots, index, "slots")]


_PREFILL = Operation("rd_prefill", [*_LEAD, _SLOTS, _SLOTS, _SLOTS_OR_NULL],
                     _SEQ + _INPUTS + _pair(2, "initial", "initial_slots")
                     + _pair(3, "final", "final_slots") + _pair(4, "snapshots", "snapshot_slots"),
                     writes="out final snapshots", required="q k v beta out")


def _decode(writes: str) -> Operation:
    return Operation("rd_decode", [*_LEAD, _SLOTS, _SLOTS_OR_NULL, _SLOTS_OR_NULL],
                     _SEQ + _INPUTS + _pair(2, "state", "slots") + _pair(3, "write", "write_slots")
                     + _pair(4, "snapshots", "snapshot_slots"), writes=writes,
                     required="q k v beta out state")


_DECODE = _decode("out state write snapshots")
_SNAPSHOT = _decode("out snapshots")  # the running state goes to the snapshots alone
_VERIFY = Operation("rd_verify", [*_LEAD, _SLOTS, _POINTER],
                    _SEQ + _INPUTS + _pair(2, "state", "slots") + [_TREE], writes="out",
                    required="q k v beta out state")
_COMMIT = Operation("rd_commit", [_POINTER, _TENSOR, _SLOTS],
                    [("accepted", 1, None)] + _pair(2, "state", "slots"), writes="state",
                    required="accepted state")
_MATERIALIZE = Operation("rd_materialize", [_POINTER, _TENSOR, _SLOTS, _SLOTS],
                         [("accepted", 1, None)] + _pair(2, "source", "source_slots")
                         + _pair(3, "to", "to_slots"), writes="to", required="accepted source to")
_COMMIT_VERIFY = Operation(
    "rd_commit_verify", [_POINTER, _TENSOR, *_LEAD, _SLOTS, _POINTER],
    [("accepted", 1, None)] + [(n, i + 2, f) for n, i, f in _SEQ + _INPUTS + [_TREE]]
    + _pair(4, "state", "slots"), writes="out state", required="accepted q k v beta out state")


class _Owner:
    """The one owner of a plan's handle, however many objects refer to it."""

    __slots__ = ("handle", "_destroy")
    __reduce_ex__ = refuse_copy("a handle of the C library", "copy the redelta.Plan that holds it")

    def __init__(self, handle: int) -> None:
        self._destroy = _lib.lib.rd_plan_destroy  # still there when modules are torn down
        self.handle = handle

    def __del__(self) -> None:
        self._destroy(self.handle)


class Plan:
    """A problem checked once, with kernels chosen and work cut; its methods are the verbs.

    Immutable, and usable from several threads at once; a copy is the plan itself, and a pickled plan is
    made anew from its problem where it is loaded. Raises what C refuses about the problem
    (``ValueError``, ``TypeError``).
    """

    def __init__(self, problem: Problem) -> None:
        if not isinstance(problem, Problem):
            raise _errors.RedeltaTypeError(f"problem: expected redelta.Problem, got {_errors.shown(problem)}")
        struct = problem._struct()
        out = c_void_p()  # a plan tells of the threads it was made for: rather those of the shared context
        _context.current().call(_lib.lib.rd_plan_create, byref(struct), byref(out), patience=1)
        self._handle: int = out.value or 0
        self._owner = _Owner(self._handle)
        self.problem = problem
        self._packed = problem.layout == "packed"

    def __copy__(self) -> "Plan":
        return self

    def __deepcopy__(self, memo: dict) -> "Plan":
        return self

    def __reduce__(self) -> tuple:
        return type(self), (self.problem,)

    def __repr__(self) -> str:
        info = self.info()
        return f"Plan({self.problem!r}, kernel={info['rows_kernel']!r}, threads={info['threads']})"

    def info(self) -> PlanInfo:
        """What was decided: scratch bytes, threads, row block, work items, kernel names, and the bytes
        of a token's records beside those of a token's state snapshot."""
        made = _lib.PlanInfo()
        made.struct_size = sizeof(made)
        status = _lib.lib.rd_plan_get_info(self._handle, byref(made))
        if status:
            raise _errors.from_status(status, "rd_plan_get_info failed")
        values = {field: getattr(made, field) for field, *_ in made._fields_
                  if not field.startswith(("struct_size", "reserved"))}
        return typed(PlanInfo, {field: value.decode() if isinstance(value, bytes) else value
                                for field, value in values.items()})

    def records(self, batch: int, capacity: int, like: Array | None = None) -> Records:
        """New, zeroed replay records for ``batch`` sequences of up to ``capacity`` tokens, as NumPy
        arrays or as arrays of ``like``'s library."""
        problem = self.problem
        batch, capacity = _errors.integer("batch", batch), _errors.integer("capacity", capacity)
        for name, count in (("batch", batch), ("capacity", capacity)):
            if count < 0:
                raise _errors.RedeltaValueError(f"{name}: must be at least 0, got {count}", 6)
        like = np.empty(0, np.float32) if like is None else like
        axis = (problem.K,) if problem.gate_axis == "per_channel" else ()
        lead = (batch, capacity)

        def zeros(shape: tuple, dtype: str) -> Any:
            return _array.empty_like(like, shape, dtype, zero=True)

        return Records(
            problem, zeros((*lead, problem.Hv, problem.V), problem.record_dtype),
            zeros((*lead, problem.Hk, problem.K), problem.record_dtype),
            None if problem.gate == "none" else zeros((*lead, problem.Hv, *axis), problem.decay_dtype))

    def records_from(self, u: Array, k: Array, decay: Array | None) -> Records:
        """Records over arrays of the caller (see :class:`Records` for shapes), written in place."""
        return Records(self.problem, u, k, decay)

    # ---------------------------------------------------------------- the verbs -------------------

    def _lead(self, q: Array, k: Array, v: Array, g: Array | None, beta: Array, A_log: Array | None,
              dt_bias: Array | None, cu_seqlens: Array | None, lengths: Array | None,
              out: Array | None) -> tuple[tuple, int]:
        for name, array in (("q", q), ("k", k), ("v", v), ("beta", beta)):
            if array is None:
                raise _errors.RedeltaTypeError(f"{name}: expected an array, got None", 1)
        if self._packed:
            batch = (_extents("cu_seqlens", cu_seqlens) or (1,))[0] - 1 if cu_seqlens is not None else 0
        else:
            batch = (_extents("v", v) or (0,))[0]
        if out is None:  # packed rows past the last sequence keep their bytes: let those be zeros
            out = _array.empty_like(v, _extents("v", v), self.problem.out_dtype, zero=self._packed)
        return (cu_seqlens, lengths, q, k, v, g, beta, A_log, dt_bias, out), batch

    def prefill(self, q: Array, k: Array, v: AnyArray, g: Array | None, beta: Array, *,
                A_log: Array | None = None, dt_bias: Array | None = None,
                cu_seqlens: Array | None = None, lengths: Array | None = None,
                initial: Array | None = None, initial_slots: Array | None = None,
                final: Array | None = None, final_slots: Array | None = None,
                snapshots: Array | None = None, snapshot_slots: Array | None = None,
                out: Array | None = None) -> AnyArray:
        """Whole sequences: returns the outputs and writes the final states into ``final``, in place.

        Without ``initial`` states start at zero; without ``final`` they are dropped. The two may be the
        same pool. Slots default to 0, 1, 2, ...; a sequence whose slot is ``pad_slot`` in a pool that
        serves both is a pad row with zero output. ``snapshots`` with ``snapshot_slots`` ([B,T] or [T]
        int32) receives the state after every token as well. ``out`` may be given to be written in place.
        """
        arrays, batch = self._lead(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, out)
        caller, frame = enter(_PREFILL, (*arrays, initial, initial_slots, final, final_slots, snapshots,
                                         snapshot_slots))
        frame.params.batch = batch
        frame.run(caller, self._handle)
        return arrays[-1]

    def decode(self, q: Array, k: Array, v: AnyArray, g: Array | None, beta: Array, *, state: Array,
               slots: Array | None = None, write_slots: Array | None = None,
               snapshots: Array | None = None, snapshot_slots: Array | None = None,
               A_log: Array | None = None, dt_bias: Array | None = None,
               cu_seqlens: Array | None = None, lengths: Array | None = None,
               out: Array | None = None) -> AnyArray:
        """One or more tokens per sequence: returns the outputs and updates ``state`` in place.

        ``write_slots`` sends the new states to other slots of the pool. ``snapshots`` with
        ``snapshot_slots`` ([B,T] or [T] int32) receives the state after every token; the running state
        is then written only if ``write_slots`` is given.
        """
        arrays, batch = self._lead(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, out)
        write = None if write_slots is None else state
        operation = _DECODE if snapshots is None or write is not None else _SNAPSHOT
        caller, frame = enter(operation, (*arrays, state, slots, write, write_slots, snapshots,
                                         snapshot_slots))
        frame.params.batch = batch
        frame.run(caller, self._handle)
        return arrays[-1]

    def verify(self, q: Array, k: Array, v: AnyArray, g: Array | None, beta: Array, *, state: Array,
               records: Records, slots: Array | None = None, A_log: Array | None = None,
               dt_bias: Array | None = None, cu_seqlens: Array | None = None,
               lengths: Array | None = None, parents: Array | None = None,
               out: Array | None = None) -> AnyArray:
        """Outputs for all candidate tokens from a checkpoint that is only read; fills ``records``.

        ``parents`` (int32, [B,T], packed [T]) makes each sequence's tokens the nodes of a draft tree: node
        i follows node ``parents[b, i]`` of its sequence, an index below i, or the checkpoint where that is
        -1 (``ValueError`` RD_E_TREE). With exact numerics every node's output has the bits of decoding the
        path to it. Entries past a length are not read.
        """
        arrays, batch = self._lead(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, out)
        self._room(records, batch)
        caller, frame = enter(_VERIFY, (*arrays, state, slots, parents))
        frame.params.batch = batch
        frame.put(3, records._pointer)
        frame.run(caller, self._handle)
        records._written()
        return arrays[-1]

    def commit(self, records: Records, accepted: Array, *, state: Array,
               slots: Array | None = None) -> None:
        """Replays the first ``accepted[b]`` records of each sequence into ``state``, in place.

        ``accepted[b]`` is 1 + the index of the last accepted node; of a tree the records on the path to it
        are replayed. Cost follows their number; 0 leaves the state's bytes alone. Consumes the records.
        """
        caller, frame = enter(_COMMIT, (accepted, state, slots))
        frame.put(0, self._given(records)._pointer)
        frame.run(caller, self._handle)

    def materialize(self, records: Records, accepted: Array, *, source: Array, to: Array,
                    source_slots: Array | None = None, to_slots: Array | None = None) -> None:
        """Like :meth:`commit`, from ``source`` into ``to`` (another pool or other slots of the same).

        ``source`` is only read and the records are not consumed: for prefix caches.
        """
        caller, frame = enter(_MATERIALIZE, (accepted, source, source_slots, to, to_slots))
        frame.put(0, self._given(records)._pointer)
        frame.run(caller, self._handle)

    def commit_verify(self, previous: Records, accepted: Array, q: Array, k: Array, v: AnyArray,
                      g: Array | None, beta: Array, *, state: Array, records: Records,
                      slots: Array | None = None, A_log: Array | None = None,
                      dt_bias: Array | None = None, cu_seqlens: Array | None = None,
                      lengths: Array | None = None, parents: Array | None = None,
                      out: Array | None = None) -> AnyArray:
        """:meth:`commit` of ``previous`` and :meth:`verify` into ``records``, in one pass over the
        states and with the same bits. The two sets of records must be disjoint."""
        arrays, batch = self._lead(q, k, v, g, beta, A_log, dt_bias, cu_seqlens, lengths, out)
        self._room(records, batch)
        caller, frame = enter(_COMMIT_VERIFY, (accepted, *arrays, parents, state, slots))
        frame.structs[2].batch = batch
        frame.put(0, self._given(previous)._pointer)
        frame.put(5, records._pointer)
        frame.run(caller, self._handle)
        records._written()
        return arrays[-1]

    @staticmethod
    def _given(records: Records) -> Records:
        if not isinstance(records, Records):
            raise _errors.RedeltaTypeError(f"records: expected redelta.Records, got "
                                           f"{type(records).__name__}")
        return records

    def _room(self, records: Records, batch: int) -> None:
        """C writes ``batch`` lengths before it could know how many the buffer of ours holds."""
        if self._given(records)._batch != batch:
            raise _errors.RedeltaValueError(
                f"records: made for {records._batch} sequences, the call has {batch}", 6)
