/* The plugin's face towards ggml: one registry entry, one ACCEL device. SPDX-License-Identifier: Apache-2.0
 * REDELTA_GGML_API is the backend interface's version, 2 or 3. */
#include "op.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static const char *backend_name(ggml_backend *backend) {
  (void)backend;
  return "redelta";
}

static void backend_free(ggml_backend *backend) {
  rdg_runner_free(backend->context);
  free(backend);
}

static int backend_compute(ggml_backend *backend, ggml_graph *graph) {
  return rdg_compute(backend->context, graph);
}

static void backend_threads(ggml_backend *backend, int threads) {
  rdg_runner_threads(backend->context, threads);
}

static const char *device_name(ggml_device *device) {
  (void)device;
  return "redelta";
}

static const char *device_description(ggml_device *device) {
  (void)device;
  return "GATED_DELTA_NET by redelta, exact to the bit";
}

static void device_memory(ggml_device *device, size_t *available, size_t *total) {
  (void)device;
  *available = *total = 0; /* none of its own */
}

static int device_type(ggml_device *device) {
  (void)device;
  return GGML_DEVICE_ACCEL;
}

static void device_props(ggml_device *device, ggml_props *props) {
  *props = (ggml_props){.name = device_name(device),
                        .description = device_description(device),
                        .type = GGML_DEVICE_ACCEL};
}

static ggml_backend *device_init(ggml_device *device, const char *params) {
  static const uint8_t guid[16] = {0x72, 0x65, 0x64, 0x65, 0x6c, 0x74, 0x61, 0x2d,
                                   0x67, 0x67, 0x6d, 0x6c, 0x2d, 0x67, 0x64, 0x6e};
  (void)params;
  ggml_backend *backend = calloc(1, sizeof *backend);
  rdg_runner *runner = rdg_runner_new();
  if (!backend || !runner) {
    free(backend);
    free(runner);
    return NULL;
  }
  backend->guid = guid;
  backend->get_name = backend_name;
  backend->free = backend_free;
  backend->graph_compute = backend_compute;
  backend->device = device;
  backend->context = runner;
  return backend;
}

static ggml_buft *device_buft(ggml_device *device) {
  (void)device;
  return ggml_backend_cpu_buffer_type();
}

static bool device_supports_op(ggml_device *device, const ggml_tensor *op) {
  (void)device;
  return rdg_supports(op);
}

static bool device_supports_buft(ggml_device *device, ggml_buft *buft) {
  (void)device;
  return ggml_backend_buft_is_host(buft);
}

static const char *reg_name(ggml_reg *reg) {
  (void)reg;
  return "redelta";
}

static size_t reg_count(ggml_reg *reg) {
  (void)reg;
  return 1;
}

static ggml_device *reg_device(ggml_reg *reg, size_t index) {
  return index == 0 ? reg->context : NULL;
}

static void *reg_address(ggml_reg *reg, const char *name) {
  (void)reg;
  return strcmp(name, "ggml_backend_set_n_threads") == 0 ? (void *)(uintptr_t)backend_threads
                                                         : NULL;
}

/* Whether the host is one whose structs these are, and has the fused operator. Older
 * hosts are refused: where llama.cpp takes the operator apart the plugin would only cost time. */
static bool host_fits(void) {
  if (!ggml_version || !ggml_gated_delta_net) {
    return false;
  }
  const char *version = ggml_version();
  if (!version || strncmp(version, "0.", 2) != 0) {
    return false;
  }
  const long minor = strtol(version + 2, NULL, 10);
  return REDELTA_GGML_API == 2 ? minor >= 21 && minor <= 25 : minor == 26;
}

EXPORT ggml_reg *ggml_backend_init(void);
ggml_reg *ggml_backend_init(void) {
  static ggml_device device = {.get_name = device_name,
                               .get_description = device_description,
                               .get_memory = device_memory,
                               .get_type = device_type,
                               .get_props = device_props,
                               .init = device_init,
                               .get_buffer_type = device_buft,
                               .supports_op = device_supports_op,
                               .supports_buft = device_supports_buft};
  static ggml_reg reg = {.api_version = REDELTA_GGML_API,
                         .get_name = reg_name,
                         .get_device_count = reg_count,
                         .get_device = reg_device,
                         .get_proc_address = reg_address,
                         .context = &device};
  device.reg = &reg;
  return host_fits() ? &reg : NULL;
}
