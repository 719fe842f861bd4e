"""The C library and its structures, as ctypes sees them.

Nothing here interprets arguments: the structures mirror ``include/redelta/*.h`` field by field (a test
compares every size and offset with the C compiler's), and :data:`lib` is the loaded library with the
prototypes the rest of the package calls. ``ctypes.CDLL`` releases the GIL during every call.
"""
from __future__ import annotations

import ctypes
import os
import sys
from ctypes import (POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32,
                    c_void_p)
from pathlib import Path

__all__ = ["lib", "library_path", "status_name"]

#: The version of the interface that the structures below describe.
INTERFACE_VERSION = "0.2"

c_enum = c_int32  # every enumeration of the interface is an int

# rd_dtype
F32, F16, BF16, I32, I64 = 1, 2, 3, 4, 5
DTYPE_NAMES = {F32: "float32", F16: "float16", BF16: "bfloat16", I32: "int32", I64: "int64"}
DTYPE_CODES = {name: code for code, name in DTYPE_NAMES.items()}
DTYPE_SIZES = {F32: 4, F16: 2, BF16: 2, I32: 4, I64: 8}
MAX_RANK = 4

# rd_isa
ISA_BITS = {"scalar": 1, "scalar_fma": 2, "avx2": 4, "avx512": 8, "neon": 16, "amx": 32}


class Tensor(Structure):
    """rd_tensor: a view of caller-owned memory; all zero is an absent tensor."""
    _fields_ = [("data", c_void_p), ("dtype", c_enum), ("rank", c_int32),
                ("shape", c_int64 * MAX_RANK), ("stride", c_int64 * MAX_RANK)]


def _tensors(names: str) -> list[tuple[str, type]]:
    return [(name, Tensor) for name in names.split()]


class Executor(Structure):
    _fields_ = [("run", c_void_p), ("self", c_void_p), ("concurrency", c_int32),
                ("reserved", c_int32)]


class Allocator(Structure):
    _fields_ = [("alloc", c_void_p), ("release", c_void_p), ("self", c_void_p)]


class ContextOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("threads", c_int32), ("isa_mask", c_uint32),
                ("executor", Executor), ("allocator", Allocator), ("message", c_void_p),
                ("message_size", c_size_t)]


class Problem(Structure):
    _fields_ = [("struct_size", c_size_t), ("layout", c_enum), ("gate", c_enum), ("gate_axis", c_enum),
                ("beta", c_enum), ("lower_bound", c_double), ("beta_times", c_int32),
                ("qk_norm", c_enum), ("l2_eps", c_double), ("has_scale", c_int32),
                ("head_map", c_enum), ("scale", c_double), ("numerics", c_enum),
                ("state_layout", c_enum), ("Hk", c_int64), ("Hv", c_int64), ("K", c_int64),
                ("V", c_int64), ("max_batch", c_int64), ("max_tokens", c_int64),
                ("qkv_dtype", c_enum), ("gate_dtype", c_enum), ("beta_dtype", c_enum),
                ("out_dtype", c_enum), ("state_dtype", c_enum), ("record_dtype", c_enum),
                ("decay_dtype", c_enum), ("pad_slot", c_int32), ("reserved", c_int64 * 8)]


class PlanInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("scratch_bytes", c_size_t), ("threads", c_int32),
                ("reserved0", c_int32), ("row_block", c_int64), ("work_items", c_int64), ("rows_kernel", c_char_p),
                ("commit_kernel", c_char_p), ("prep_kernel", c_char_p),
                ("fast_prefill_kernel", c_char_p), ("fast_verify_kernel", c_char_p),
                ("record_bytes_per_token", c_size_t), ("snapshot_bytes_per_token", c_size_t),
                ("reserved", c_int64 * 8)]


class Sequences(Structure):
    _fields_ = [("struct_size", c_size_t), ("batch", c_int64), *_tensors("cu_seqlens lengths parents")]


class Activations(Structure):
    _fields_ = [("struct_size", c_size_t), *_tensors("q k v g beta A_log dt_bias out")]


class Slots(Structure):
    _fields_ = [("struct_size", c_size_t), *_tensors("pool slots")]


class RecordsMade(Structure):
    _fields_ = [("magic", c_uint32), ("consumed", c_int32), ("gate_kind", c_int32),
                ("head_map", c_int32), ("tree", c_int32), ("reserved0", c_int32), ("batch", c_int64),
                ("C", c_int64), ("Hk", c_int64), ("Hv", c_int64), ("K", c_int64), ("V", c_int64),
                ("generation", c_int64), ("reserved", c_int64 * 6)]


class Records(Structure):
    _fields_ = [("struct_size", c_size_t), *_tensors("u k decay parents"), ("lengths", POINTER(c_int32)),
                ("generation", POINTER(c_int64)), ("made", RecordsMade)]


class ChunkGatedDeltaRule(Structure):
    _fields_ = [("struct_size", c_size_t),
                *_tensors("query key value beta state actual_seq_lengths g"),
                ("scale_value", c_double), *_tensors("out final_state"), ("numerics", c_enum),
                ("reserved", c_int32)]


class FusedRecurrentKdaReplayssm(Structure):
    _fields_ = [("struct_size", c_size_t), *_tensors("mixedqkv recurrent_state beta g"),
                ("has_scale", c_int32), ("layout_qkv", c_enum), ("scale", c_double),
                *_tensors("A_log dt_bias"), ("lower_bound", c_double),
                *_tensors("replay_u replay_k replay_decay cu_seqlens"), ("block_num", c_int32),
                ("numerics", c_enum), *_tensors("out")]


class CommitRecurrentKdaReplayssm(Structure):
    _fields_ = [("struct_size", c_size_t),
                *_tensors("recurrent_state replay_u replay_k replay_decay num_accepted_tokens"),
                ("block_num", c_int32), ("reserved", c_int32)]


class FlashKdaMetadata(Structure):
    _fields_ = [("struct_size", c_size_t), *_tensors("q v initial_state"), ("layout_qkv", c_enum),
                ("reserved", c_int32), *_tensors("cu_seqlens metadata")]


class FlashKda(Structure):
    _fields_ = [("struct_size", c_size_t), *_tensors("q k v g beta"), ("has_scale", c_int32),
                ("layout_qkv", c_enum), ("scale", c_double), *_tensors("initial_state A_log dt_bias"),
                ("lower_bound", c_double), *_tensors("metadata out final_state"),
                ("numerics", c_enum), ("reserved", c_int32)]


class FusedRecurrentKda(Structure):
    _fields_ = [("struct_size", c_size_t), *_tensors("mixedqkv state beta g"),
                ("has_scale", c_int32), ("layout_qkv", c_enum), ("scale", c_double),
                *_tensors("A_log dt_bias"), ("lower_bound", c_double),
                *_tensors("cu_seqlens ssm_state_indices num_accepted_tokens out")]


#: C type name -> mirror; the layout test walks this table.
C_NAMES = {
    "rd_tensor": Tensor, "rd_executor": Executor, "rd_allocator": Allocator,
    "rd_context_options": ContextOptions, "rd_problem": Problem, "rd_plan_info": PlanInfo,
    "rd_sequences": Sequences, "rd_activations": Activations, "rd_slots": Slots,
    "rd_records": Records,
    "rd_chunk_gated_delta_rule_params": ChunkGatedDeltaRule,
    "rd_fused_recurrent_kda_replayssm_params": FusedRecurrentKdaReplayssm,
    "rd_commit_recurrent_kda_replayssm_params": CommitRecurrentKdaReplayssm,
    "rd_flash_kda_metadata_params": FlashKdaMetadata,
    "rd_flash_kda_params": FlashKda,
    "rd_fused_recurrent_kda_params": FusedRecurrentKda,
}

_HANDLE = c_void_p  # rd_context *, rd_plan *

# name: (result, arguments). Structures are passed by address (c_void_p takes byref()).
_PROTOTYPES = {
    "rd_version": (c_char_p, []),
    "rd_status_name": (c_char_p, [c_enum]),
    "rd_context_options_init_sized": (None, [c_void_p, c_size_t]),
    "rd_context_create": (c_enum, [c_void_p, c_void_p]),
    "rd_context_destroy": (None, [_HANDLE]),
    "rd_last_error": (c_char_p, [_HANDLE]),
    "rd_context_reserved": (c_size_t, [_HANDLE]),
    "rd_context_threads": (c_int32, [_HANDLE]),
    "rd_isa_usable": (c_uint32, []),
    "rd_isa_built": (c_uint32, []),
    "rd_isa_emulated": (c_uint32, []),
    "rd_kernel_slots": (c_int32, []),
    "rd_kernel_slot_name": (c_char_p, [c_int32]),
    "rd_kernel_chosen": (c_char_p, [_HANDLE, c_int32]),
    "rd_kernel_isa": (c_uint32, [_HANDLE, c_int32]),
    "rd_problem_init_sized": (None, [c_void_p, c_size_t]),
    "rd_plan_create": (c_enum, [_HANDLE, c_void_p, c_void_p]),
    "rd_plan_destroy": (None, [_HANDLE]),
    "rd_plan_get_info": (c_enum, [_HANDLE, c_void_p]),
    "rd_prefill": (c_enum, [_HANDLE, _HANDLE] + 5 * [c_void_p]),
    "rd_decode": (c_enum, [_HANDLE, _HANDLE] + 5 * [c_void_p]),
    "rd_verify": (c_enum, [_HANDLE, _HANDLE] + 4 * [c_void_p]),
    "rd_commit": (c_enum, [_HANDLE, _HANDLE] + 3 * [c_void_p]),
    "rd_materialize": (c_enum, [_HANDLE, _HANDLE] + 4 * [c_void_p]),
    "rd_commit_verify": (c_enum, [_HANDLE, _HANDLE] + 6 * [c_void_p]),
    "rd_pool_alloc": (c_enum, [_HANDLE] + 4 * [c_int64] + [c_enum, c_enum, c_void_p]),
    "rd_pool_free": (c_enum, [_HANDLE, c_void_p]),
    "rd_pool_reset": (c_enum, [_HANDLE, c_void_p, c_int64]),
    "rd_pool_copy": (c_enum, [_HANDLE, c_void_p, c_int64, c_int64]),
    "rd_pool_convert": (c_enum, [_HANDLE, c_void_p, c_enum, c_void_p, c_enum]),
    "rd_pool_save_size": (c_enum, [_HANDLE, c_void_p, c_void_p]),
    "rd_pool_save": (c_enum, [_HANDLE, c_void_p, c_enum, c_int64, c_void_p, c_size_t]),
    "rd_pool_load": (c_enum, [_HANDLE, c_void_p, c_enum, c_int64, c_void_p, c_size_t]),
    "rd_flash_kda_metadata_size": (c_enum, [_HANDLE, c_void_p, c_void_p]),
}
for _name in ("chunk_gated_delta_rule", "fused_recurrent_kda_replayssm",
              "commit_recurrent_kda_replayssm", "flash_kda_metadata", "flash_kda",
              "fused_recurrent_kda"):
    _PROTOTYPES[f"rd_{_name}"] = (c_enum, [_HANDLE, c_void_p])
    _PROTOTYPES[f"rd_{_name}_init_sized"] = (None, [c_void_p, c_size_t])


def _candidates() -> list[Path]:
    chosen = os.environ.get("REDELTA_LIBRARY")
    if chosen:
        return [Path(chosen)]
    here = Path(__file__).resolve().parent
    installed = [Path(folder) for folder in sys.modules[__package__].__path__]  # two when editable
    return [*(folder / "lib" / "libredelta.so" for folder in installed),  # in the wheel
            here.parent.parent / "build" / "libredelta.so"]               # in the source tree


def _load() -> tuple[ctypes.CDLL, Path]:
    tried = []
    for path in _candidates():
        if not path.is_file():
            tried.append(f"{path} (no such file)")
            continue
        try:
            handle = ctypes.CDLL(str(path))
        except OSError as error:
            tried.append(f"{path} ({error})")
            continue
        try:
            for name, (result, arguments) in _PROTOTYPES.items():
                function = getattr(handle, name)
                function.restype, function.argtypes = result, arguments
        except AttributeError as error:
            raise ImportError(f"{path} is not the redelta library this package needs: {error}") from None
        version = handle.rd_version().decode()
        if version.rsplit(".", 1)[0] != INTERFACE_VERSION:
            raise ImportError(f"{path} is redelta {version}; this package needs {INTERFACE_VERSION}.x")
        return handle, path
    raise ImportError("redelta's C library was not found; build it (make run) or point REDELTA_LIBRARY "
                      "to it. Tried: " + "; ".join(tried))


lib, library_path = _load()


def status_name(status: int) -> str:
    """The name of a status code, such as ``"RD_E_DTYPE"``."""
    return lib.rd_status_name(status).decode()
