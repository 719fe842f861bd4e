"""Logits of a tiny random model: llama.cpp by itself and with the plugin. SPDX-License-Identifier: Apache-2.0

usage: test_model.py WHEEL PLUGIN [SEED]

The same tokens are decoded in calls of 1, 4, 32 and 128 tokens. Between these llama.cpp's own logits differ, because
its kernels for one and for several columns add in other orders. The plugin's logits must be no further from llama.cpp's,
call by call, than twice the least of these differences, and 64 greedy tokens must be the same. Each way runs in a process of its own, since
ggml keeps what it has loaded.
"""

import ctypes as C
import os
import subprocess
import sys
import tempfile

import numpy as np

import tiny_model

TOKENS, STEPS, GREEDY, MODELS = 128, (1, 4, 32, 128), 64, 3


class Opaque(C.Structure):
    """Parameters by value, larger than any: what the library fills in goes back to it as it is."""

    _fields_ = [("words", C.c_uint64 * 64)]


class Batch(C.Structure):
    _fields_ = [("n_tokens", C.c_int32), *((n, C.c_void_p) for n in "token embd pos n_seq_id seq_id logits".split())]


LOG = C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
SILENT = LOG(lambda level, text, data: None)
SIGNATURES = {
    "llama_log_set": (None, [LOG, C.c_void_p]),
    "llama_model_default_params": (Opaque, []),
    "llama_context_default_params": (Opaque, []),
    "llama_model_load_from_file": (C.c_void_p, [C.c_char_p, Opaque]),
    "llama_init_from_model": (C.c_void_p, [C.c_void_p, Opaque]),
    "llama_free": (None, [C.c_void_p]),
    "llama_model_free": (None, [C.c_void_p]),
    "llama_batch_get_one": (Batch, [C.c_void_p, C.c_int32]),
    "llama_decode": (C.c_int32, [C.c_void_p, Batch]),
    "llama_get_logits_ith": (C.POINTER(C.c_float), [C.c_void_p, C.c_int32]),
}


class Llama:
    """llama.cpp of the wheel with ggml's CPU backend and whatever GGML_BACKEND_PATH names."""

    def __init__(self, wheel):
        lib = os.path.join(wheel, "lib")
        for name in ("libgomp.so.1", "libggml-base.so.0", "libggml.so.0", "libllama.so.0"):
            handle = C.CDLL(os.path.join(lib, name), C.RTLD_GLOBAL)
            if name == "libggml.so.0":
                handle.ggml_backend_load_all_from_path.argtypes = [C.c_char_p]
                handle.ggml_backend_load_all_from_path(os.fsencode(os.path.join(wheel, "bin")))
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(handle, name)
            function.restype, function.argtypes = result, arguments
        self.lib = handle
        handle.llama_log_set(SILENT, None)

    def load(self, path):
        model = self.lib.llama_model_load_from_file(os.fsencode(path), self.lib.llama_model_default_params())
        assert model, f"{path} was not loaded"
        return model

    def context(self, model):
        context = self.lib.llama_init_from_model(model, self.lib.llama_context_default_params())
        assert context, "no context"
        return context

    def decode(self, context, tokens):
        """Logits after the last token."""
        array = np.ascontiguousarray(tokens, np.int32)
        status = self.lib.llama_decode(context, self.lib.llama_batch_get_one(array.ctypes.data, len(array)))
        assert status == 0, f"llama_decode: {status}"
        return np.ctypeslib.as_array(self.lib.llama_get_logits_ith(context, -1), (tiny_model.VOCABULARY,)).copy()


def record(wheel, path, out):
    """Every call's logits, as [steps, tokens, vocabulary] (zero where no call ends), and the greedy tokens."""
    llama = Llama(wheel)
    logits, text = [], []
    for seed in range(MODELS):
        model = llama.load(f"{path}.{seed}")
        tokens = np.random.default_rng(seed).integers(0, tiny_model.VOCABULARY, TOKENS)
        for step in STEPS:
            context = llama.context(model)
            rows = np.zeros((TOKENS, tiny_model.VOCABULARY), np.float32)
            for first in range(0, TOKENS, step):
                rows[first + step - 1] = llama.decode(context, tokens[first:first + step])
            logits.append(rows)
            if step == STEPS[-1]:
                text.append(int(rows[-1].argmax()))
                for _ in range(GREEDY - 1):
                    text.append(int(llama.decode(context, [text[-1]]).argmax()))
            llama.lib.llama_free(context)
        llama.lib.llama_model_free(model)
    np.savez(out, logits=np.reshape(logits, (MODELS, len(STEPS), TOKENS, -1)), text=text)


def size(x):
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64))))


def main():
    wheel, plugin = sys.argv[1:3]
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    runs = {}
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.gguf")
        for i in range(MODELS):
            tiny_model.write(f"{path}.{i}", seed + i)
        for name, backend in (("stock", None), ("plugin", plugin)):
            environment = {k: v for k, v in os.environ.items() if k != "GGML_BACKEND_PATH"}
            if backend:
                environment["GGML_BACKEND_PATH"] = os.path.abspath(backend)
            out = os.path.join(directory, name + ".npz")
            subprocess.run([sys.executable, __file__, wheel, "--record", path, out], check=True, env=environment,
                           stderr=subprocess.DEVNULL)
            runs[name] = dict(np.load(out))
    stock, mine = runs["stock"]["logits"], runs["plugin"]["logits"]
    passed = failed = 0

    def check(good, what):
        nonlocal passed, failed
        passed, failed = passed + bool(good), failed + (not good)
        print(what if good else "FAILED " + what)

    for m in range(MODELS):
        own = min(size(stock[m, s, step - 1::step] - stock[m, 0, step - 1::step]) for s, step in enumerate(STEPS) if s)
        for s, step in enumerate(STEPS):
            calls = slice(step - 1, None, step)
            far = size(mine[m, s, calls] - stock[m, s, calls])
            check(0 < far <= 2 * own, f"model {m}, calls of {step}: {far:.1e} from llama.cpp, whose own differ by {own:.1e}, "
                  f"logits {size(stock[m, s, calls]):.2f}")
        text = slice(m * GREEDY, (m + 1) * GREEDY)
        check(np.array_equal(runs["stock"]["text"][text], runs["plugin"]["text"][text]), f"model {m}: {GREEDY} greedy tokens")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    if "--record" in sys.argv:
        sys.exit(record(sys.argv[1], *sys.argv[3:5]))
    sys.exit(main())
