/*
 * The contract between a kernel on the AI Core model and everything generic around it (the tool, the
 * race checker's defaults, mutation, tests).  A kernel file fills one rdn_kernel_desc and adds one
 * line to registry.c; nothing else knows its name.
 *
 * Internal: links against redelta-npu, uses only <redelta/npu.h>.
 */
#ifndef REDELTA_NPU_KERNEL_H
#define REDELTA_NPU_KERNEL_H

#include <redelta/npu.h>

#define RDN_CALL_TENSORS 24
#define RDN_CALL_SCALARS 12
#define RDN_CALL_RANK    6

/* A named tensor of a call, contiguous, row major. */
typedef struct rdn_named {
  char name[32];
  rd_npu_type type;
  uint32_t rank;
  int64_t shape[RDN_CALL_RANK];
  void *data;  /* host memory, 64-byte aligned when allocated by the call */
  bool owned;  /* freed with the call */
  bool output; /* written to OUT by `redelta npu run` */
} rdn_named;

typedef struct rdn_setting { /* --scale 0.5, --layout-qkv TND: name without dashes, '-' -> '_' */
  char name[32];
  char value[64];
} rdn_setting;

/* One operator call on its way to the model. */
typedef struct rdn_call {
  rd_npu_arch arch; /* set by the caller: --arch, or the kernel's own */
  uint32_t cores;   /* --cores, 0 = default of the architecture */
  rdn_named tensor[RDN_CALL_TENSORS];
  uint32_t tensor_count;
  rdn_setting setting[RDN_CALL_SCALARS];
  uint32_t setting_count;
  uint64_t seed; /* of generate() */

  /* filled by prepare() */
  rd_npu_launch launch;
  rd_npu_tensor gm[RDN_CALL_TENSORS];
  void *args;           /* freed with the call */
  char error[256];      /* names the tensor or setting, what was expected, what came */
  rd_npu_status status; /* that goes with error: bad input, or no memory */
} rdn_call;

typedef bool rdn_text_sink(void *user, const char *text);

typedef struct rdn_preset {
  const char *name;  /* "default", "qwen3.5" */
  const char *shape; /* "B=2,Hk=1,Hv=2,T=150,K=32,V=48,lengths=150:37" */
} rdn_preset;

typedef struct rdn_limit { /* per output: what `run --oracle` and the tests demand */
  const char *output;
  double nrmse;      /* 0 = not judged by it */
  double atol, rtol; /* |x-r| <= atol + rtol*|r|; both 0 = not judged by it */
} rdn_limit;

typedef struct rdn_kernel_desc {
  const char *name; /* the operator's name */
  const char *summary;
  uint32_t
      gm_slack; /* bytes behind its GM tensors that it reads: options.gm_slack of its launches */
  rd_npu_arch arch;                   /* the only architecture it runs on */
  const rdn_preset *presets;          /* [0] = what race and mutate use; ends with {NULL, NULL} */
  const char *const *mutation_shapes; /* shapes of the mutation set, NULL-terminated */
  /* Fill tensors and settings of an empty call for this shape text (keys in the operator's letters;
   * missing keys take the default preset's values).  Deterministic in call->seed. */
  rd_npu_status (*generate)(rdn_call *call, const char *shape);
  /* Validate everything, add the output tensors (owned), allocate args, fill launch (with kernel,
   * tensors in gm[], block_num).  RD_NPU_BAD_INPUT with call->error otherwise.  May be called once. */
  rd_npu_status (*prepare)(rdn_call *call);
  /* Expected values of one output in double, element by element, computed from the inputs by plain
   * loops independent of the kernel.  Must be called before the launch when inputs are updated in place.
   * expected has as many elements as the tensor. */
  rd_npu_status (*oracle)(const rdn_call *call, const char *output, double *expected);
  const rdn_limit *limits; /* ends with output NULL */
  /* Describe the work split (--plan); NULL when there is nothing to say.  After prepare(). */
  void (*plan)(const rdn_call *call, rdn_text_sink *sink, void *user);
} rdn_kernel_desc;

/* registry.c */
const rdn_kernel_desc *rdn_kernel_find(const char *name);
const rdn_kernel_desc *rdn_kernel_at(size_t index); /* NULL past the last */

/* call.c: helpers for descriptors, tests and the tool */
void rdn_call_init(rdn_call *call, rd_npu_arch arch);
void rdn_call_free(rdn_call *call);
size_t rdn_type_bytes(rd_npu_type type);
const char *rdn_type_name(rd_npu_type type);
/* Find by name, NULL when absent. */
rdn_named *rdn_call_tensor(rdn_call *call, const char *name);
const rdn_named *rdn_call_input(const rdn_call *call, const char *name);
/* Add a tensor; data NULL = allocate zeroed, owned.  NULL when full, too large or out of memory (error
 * and status are set). */
rdn_named *rdn_call_add(rdn_call *call, const char *name, rd_npu_type type, uint32_t rank,
                        const int64_t *shape, void *data);
/* For prepare(), once the architecture is known to be the kernel's: the input with this type, rank and
 * shape (NULL or a negative dimension: any), or a failure that names what is wrong. */
rd_npu_status rdn_call_expect(rdn_call *call, const char *name, rd_npu_type type, uint32_t rank,
                              const int64_t *shape, const rdn_named **out);
int64_t rdn_named_count(const rdn_named *tensor);
uint64_t rdn_named_bytes(const rdn_named *tensor);
/* Element as double, any type. */
double rdn_named_value(const rdn_named *tensor, int64_t index);
void rdn_named_store(rdn_named *tensor, int64_t index,
                     double value); /* one rounding, nearest even */
bool rdn_call_set(rdn_call *call, const char *name, const char *value);
const char *rdn_call_setting(const rdn_call *call, const char *name); /* NULL when absent */
/* Formats call->error, sets call->status to RD_NPU_BAD_INPUT and returns it. */
rd_npu_status rdn_call_fail(rdn_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Append a GM tensor to launch.tensors (call->gm); returns its number for GM(n). */
uint32_t rdn_call_gm(rdn_call *call, const rdn_named *tensor, rd_npu_access_mode mode);
/* "B=2,Hk=1": the value of key, or fallback.  Lists: "lengths=150:37". */
bool rdn_shape_int(const char *shape, const char *key, int64_t fallback, int64_t *value);
/* Number of list values read (at most max), -1 when malformed, 0 when the key is absent. */
int rdn_shape_list(const char *shape, const char *key, int64_t *values, int max);
/* Text value ("layout=TND") into out; false when absent. */
bool rdn_shape_text(const char *shape, const char *key, char *out, size_t size);
/* Random numbers for generate(): splitmix64 state. */
uint64_t rdn_rand(uint64_t *state);
double rdn_rand_uniform(uint64_t *state); /* (0,1) */
double rdn_rand_normal(uint64_t *state);
/* 16-bit conversions on host data. */
uint16_t rdn_f16_from(double value);
double rdn_f16_to(uint16_t bits);
uint16_t rdn_bf16_from(double value);
double rdn_bf16_to(uint16_t bits);

#endif
