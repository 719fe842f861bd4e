/* io/io.h - strict tensor files for the tool and the tests: safetensors and npy.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A file is untrusted input. Every violation of a format is an error that names the tensor and says
 * what was expected and what came; nothing is repaired, guessed or skipped. Sizes are checked
 * against the real size of the file before anything is allocated from them.
 */
#ifndef RD_IO_IO_H
#define RD_IO_IO_H

#include "redelta/types.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>

/* The values are the tool's exit statuses. */
typedef enum io_status {
  IO_OK = 0,
  IO_BAD = 2,   /* the file or the name of the file is wrong         */
  IO_SYSTEM = 3 /* the machine refused: memory, disk, permissions    */
} io_status;

typedef struct io_error {
  char text[640];
} io_error;

/* Writes the message (printf form) and returns `status`. err may be NULL. */
io_status io_fail(io_error *err, io_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- tensors ------------------------------------------------------------------------------------
 */

enum { IO_MAX_RANK = 32, IO_ALIGN = 64 };

/* Element types a file may hold. `rd` is RD_ABSENT for those that no operator takes. A file may also
 * name types that are not known here, as new ones keep coming: then `size` is 0, the data are bytes
 * without elements, and only an operator that is given the tensor refuses it. */
typedef struct io_dtype {
  const char *name; /* safetensors spelling: "F32", "BF16", ... */
  size_t size;
  rd_dtype rd;
} io_dtype;

const io_dtype *io_dtype_by_name(const char *name); /* NULL when unknown */
const io_dtype *io_dtype_of(rd_dtype dtype);        /* NULL for RD_ABSENT */
int io_same_dtype(const io_dtype *a, const io_dtype *b);

/* Owns its name, its data (IO_ALIGN-aligned, never NULL, also when empty) and an unknown dtype. */
typedef struct io_tensor {
  char *name;
  const io_dtype *dtype;
  int32_t rank;
  int64_t shape[IO_MAX_RANK];
  uint64_t bytes;
  void *data;
} io_tensor;

/* A set of named tensors. Zero-initialise before first use. */
typedef struct io_file {
  io_tensor *tensors;
  size_t count;
} io_file;

void io_file_free(io_file *file);
/* By name; looks at every tensor. For as many searches as tensors there is an index. */
io_tensor *io_file_find(const io_file *file, const char *name);

/* The tensors of a file sorted by name: n log n to make, log n to search, whatever the names. Holds
 * until the file changes. IO_SYSTEM when memory is short. */
typedef struct io_index {
  io_tensor **sorted;
  size_t count;
} io_index;
io_status io_index_make(const io_file *file, io_index *index, io_error *err);
io_tensor *io_index_find(const io_index *index, const char *name);
void io_index_free(io_index *index);

/* Adds a zeroed tensor, or replaces the one of that name. IO_BAD on rank, negative extent, a size that
 * overflows or an unknown type. *out (may be NULL) stays valid until the next add or remove. */
io_status io_file_add(io_file *file, const char *name, const io_dtype *dtype, int32_t rank,
                      const int64_t *shape, io_tensor **out, io_error *err);
void io_file_remove(io_file *file, const char *name);

/* Elements of a tensor (of an unknown type: bytes); its view for the library. The view is absent for a NULL tensor; rank above
 * RD_MAX_RANK and element types without an rd_dtype give IO_BAD naming the tensor. A 0-dimensional
 * tensor has no view either. */
int64_t io_tensor_elements(const io_tensor *tensor);
io_status io_tensor_view(const io_tensor *tensor, rd_tensor *view, io_error *err);

/* Element `index` as a double (I64 beyond 2^53 is rounded); 0 for a type without one, as F8_E4M3. */
int io_tensor_number(const io_tensor *tensor, int64_t index, double *value);

/* "F16 [1, 16, 512, 128]" */
void io_tensor_describe(const io_tensor *tensor, char *text, size_t size);

/* Coordinate of element `index`, "[0, 3, 17]"; of an unknown type "byte 17". */
void io_tensor_coordinate(const io_tensor *tensor, int64_t index, char *text, size_t size);

/* ---- safetensors --------------------------------------------------------------------------------
 */

/* Header limit of the format, in bytes. */
#define IO_SAFETENSORS_MAX_HEADER (100u * 1000u * 1000u)

/* Reads a whole file into `file` (which must be empty). Checked: length of the header against limit
 * and file size; first byte '{'; JSON without duplicate keys, nothing after it but blanks; members
 * dtype, shape, data_offsets and no other; extents >= 0; offsets ordered and inside;
 * product of the shape times the element size equal to the byte range, without overflow (of a dtype
 * that is not known here, the size is whatever the range says); ranges neither overlapping nor leaving a hole; the last one ending where the file ends; __metadata__ an
 * object of strings. On failure `file` is left empty. */
io_status io_safetensors_read(const char *path, io_file *file, io_error *err);
io_status io_safetensors_parse(const void *bytes, size_t size, io_file *file, io_error *err);

/* Writes to a temporary file beside `path`, syncs it and renames it over `path`. On failure neither
 * exists (an older `path` keeps its bytes). Refuses to replace anything but a regular file. Wide
 * element types come first, so every tensor is aligned; otherwise the order is kept. */
io_status io_safetensors_write(const char *path, const io_file *file, io_error *err);

/* Finds out before the work that a later write to `path` cannot succeed: its folder is missing, or it
 * is something else than a regular file. Writes nothing. */
io_status io_check_output(const char *path, io_error *err);

/* Names of the temporary files while they exist, for a signal handler to unlink; else "". */
enum { IO_OUTPUTS = 2 };
extern char io_temporary_names[IO_OUTPUTS][PATH_MAX + 64];

/* A file that appears whole or not at all: `fd` is a new file beside `path`. Close syncs it and
 * renames it over `path`, or, when `failed` (errno says why), takes it away. At most IO_OUTPUTS at
 * once, of one thread. */
typedef struct io_output {
  const char *path;
  char *temporary;
  char real[PATH_MAX];
  int fd;
} io_output;
io_status io_output_open(io_output *out, const char *path, io_error *err);
io_status io_output_close(io_output *out, int failed, io_error *err);

/* IO_BAD when both paths name one existing file (same device and inode). */
io_status io_refuse_same_file(const char *out, const char *in, io_error *err);

/* ---- npy ----------------------------------------------------------------------------------------
 */

/* Reads an npy file (format 1.0 to 3.0, little-endian f2 f4 f8 i4 i8, C order) and adds it as
 * tensor `name`. '<V2' and '|V2' are taken as bfloat16: that is how NumPy stores
 * ml_dtypes.bfloat16. */
io_status io_npy_read(const char *path, const char *name, io_file *file, io_error *err);
io_status io_npy_parse(const void *bytes, size_t size, const char *name, io_file *file,
                       io_error *err);

/* ---- JSON output --------------------------------------------------------------------------------
 */

/* A number, or the string "nan", "inf" or "-inf", which JSON has no numbers for. */
json_t *io_json_real(double value);

/* Prints and releases `value`, one line per member of the outermost two levels. IO_SYSTEM if the
 * stream fails. */
io_status io_json_print(FILE *stream, json_t *value);

#endif
