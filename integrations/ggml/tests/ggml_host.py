"""The wheel's ggml through ctypes: tensors, graphs and two backends. SPDX-License-Identifier: Apache-2.0"""

import ctypes as C
import os

import numpy as np

P, I64 = C.c_void_p, C.c_int64


class InitParams(C.Structure):
    _fields_ = [("mem_size", C.c_size_t), ("mem_buffer", P), ("no_alloc", C.c_bool)]


class Host:
    """libggml-base and libggml of a wheel; `load` adds backends from shared objects."""

    def __init__(self, wheel):
        lib = os.path.join(wheel, "lib")
        for name in ("libgomp.so.1", "libggml-base.so.0", "libggml.so.0"):
            handle = C.CDLL(os.path.join(lib, name), C.RTLD_GLOBAL)
            setattr(self, name.split(".")[0].replace("lib", "").replace("-", "_"), handle)
        base = self.ggml_base
        for name in (
            "ggml_init ggml_new_tensor ggml_gated_delta_net ggml_get_rows ggml_cpy ggml_view_3d ggml_reshape_4d "
            "ggml_new_graph ggml_get_data ggml_backend_alloc_ctx_tensors_from_buft ggml_backend_cpu_buffer_type "
            "ggml_backend_dev_init ggml_backend_reg_dev_get ggml_view_4d ggml_set_name"
        ).split():
            getattr(base, name).restype = P
        self.ggml.ggml_backend_load.restype = P

    def load(self, path):
        return self.ggml.ggml_backend_load(os.fsencode(path))

    def backend(self, reg, threads):
        base = self.ggml_base
        backend = base.ggml_backend_dev_init(P(base.ggml_backend_reg_dev_get(P(reg), C.c_size_t(0))), None)
        address = base.ggml_backend_reg_get_proc_address
        address.restype = P
        set_threads = C.CFUNCTYPE(None, P, C.c_int)(address(P(reg), b"ggml_backend_set_n_threads"))
        set_threads(backend, threads)
        return backend


class Graph:
    """Tensors of one graph; shapes are ggml's, fastest first."""

    def __init__(self, host):
        self.b, self.inputs = host.ggml_base, []
        self.ctx = P(self.b.ggml_init(InitParams(1 << 20, None, True)))

    def new(self, array, shape, kind=0, name=None):
        t = P(self.b.ggml_new_tensor(self.ctx, kind, len(shape), (I64 * len(shape))(*shape)))
        if name:
            self.b.ggml_set_name(t, name)
        self.inputs.append((t, np.ascontiguousarray(array)))
        return t

    def call(self, name, *args):
        return P(getattr(self.b, name)(self.ctx, *args))

    def compute(self, backend, root):
        """A list of numpy views: the root, then every input."""
        b = self.b
        graph = P(b.ggml_new_graph(self.ctx))
        b.ggml_build_forward_expand(graph, root)
        buffer = P(b.ggml_backend_alloc_ctx_tensors_from_buft(self.ctx, P(b.ggml_backend_cpu_buffer_type())))
        for t, array in self.inputs:
            C.memmove(b.ggml_get_data(t), array.ctypes.data, array.nbytes)
        return graph, buffer, b.ggml_backend_graph_compute(P(backend), graph)

    def read(self, t, count, dtype=np.float32):
        raw = C.string_at(self.b.ggml_get_data(t), count * np.dtype(dtype).itemsize)
        return np.frombuffer(raw, dtype).copy()

    def free(self, buffer):
        self.b.ggml_backend_buffer_free(buffer)
        self.b.ggml_free(self.ctx)
