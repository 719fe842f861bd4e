/* The part of ggml's binary interface that the plugin touches, stated anew. SPDX-License-Identifier: Apache-2.0
 *
 * Interface versions 2 (ggml 0.21 to 0.25) and 3 (0.26) agree in every struct below; what differs between
 * them lies in buffer types, which the plugin takes from ggml. Only ggml_backend_init refuses what is
 * neither. Members that are never read or set are of the type `unused_fn`. */
#ifndef REDELTA_GGML_ABI_H
#define REDELTA_GGML_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GGML_F32 = 0, GGML_I32 = 26 };            /* element types */
enum { GGML_OK = 0, GGML_FAILED = -1 };          /* what graph_compute returns */
enum { GGML_DEVICE_ACCEL = 3, GGML_OUTPUT = 2 }; /* device type; flag of a graph's result */

typedef void (*unused_fn)(void);
typedef struct ggml_graph ggml_graph; /* opaque */
typedef struct ggml_buft ggml_buft;   /* opaque */

typedef struct ggml_tensor {
  int32_t type;
  void *buffer;
  int64_t ne[4]; /* sizes, fastest first */
  size_t nb[4];  /* strides in bytes */
  int32_t op;
  int32_t op_params[16];
  int32_t flags;
  struct ggml_tensor *src[10];
  struct ggml_tensor *view_src;
  size_t view_offs;
  void *data;
  char name[64];
  void *extra;
  char padding[8];
} ggml_tensor;
_Static_assert(offsetof(ggml_tensor, op) == 0x50 && offsetof(ggml_tensor, src) == 0x98,
               "the layout of ggml_tensor");

typedef struct ggml_device ggml_device;
typedef struct ggml_reg ggml_reg;

typedef struct ggml_backend {
  const uint8_t *guid; /* 16 bytes */
  const char *(*get_name)(struct ggml_backend *backend);
  void (*free)(struct ggml_backend *backend);
  unused_fn set_async, get_async, set_2d_async, get_2d_async, cpy_async, synchronize;
  unused_fn plan_create, plan_free, plan_update, plan_compute;
  int (*graph_compute)(struct ggml_backend *backend, ggml_graph *graph);
  unused_fn event_record, event_wait, graph_optimize;
  ggml_device *device;
  void *context;
} ggml_backend;
_Static_assert(offsetof(ggml_backend, graph_compute) == 0x68, "the layout of ggml_backend");

typedef struct ggml_props {
  const char *name, *description;
  size_t memory_free, memory_total;
  int32_t type;
  const char *device_id;
  bool async, host_buffer, buffer_from_host_ptr, events;
} ggml_props;

struct ggml_device {
  const char *(*get_name)(ggml_device *device);
  const char *(*get_description)(ggml_device *device);
  void (*get_memory)(ggml_device *device, size_t *available, size_t *total);
  int (*get_type)(ggml_device *device);
  void (*get_props)(ggml_device *device, ggml_props *props);
  ggml_backend *(*init)(ggml_device *device, const char *params);
  ggml_buft *(*get_buffer_type)(ggml_device *device);
  unused_fn get_host_buffer_type, buffer_from_host_ptr;
  bool (*supports_op)(ggml_device *device, const ggml_tensor *op);
  bool (*supports_buft)(ggml_device *device, ggml_buft *buft);
  unused_fn offload_op, event_new, event_free, event_synchronize;
  ggml_reg *reg;
  void *context;
};
_Static_assert(offsetof(ggml_device, supports_op) == 0x48, "the layout of ggml_device");

struct ggml_reg {
  int32_t api_version;
  const char *(*get_name)(ggml_reg *reg);
  size_t (*get_device_count)(ggml_reg *reg);
  ggml_device *(*get_device)(ggml_reg *reg, size_t index);
  void *(*get_proc_address)(ggml_reg *reg, const char *name);
  void *context;
};

/* From libggml-base. Weak where older ones lack them. */
const char *ggml_op_name(int op);
int ggml_graph_n_nodes(ggml_graph *graph);
ggml_tensor *ggml_graph_node(ggml_graph *graph, int i);
bool ggml_backend_buft_is_host(ggml_buft *buft);
ggml_buft *ggml_backend_cpu_buffer_type(void);
const char *ggml_version(void) __attribute__((weak));
void ggml_gated_delta_net(void) __attribute__((weak)); /* asked for, never called */

#endif
