/* Bytes from a file or from memory behind one reader, so that fuzzing exercises the real parser. */
#ifndef RD_IO_FILE_INTERNAL_H
#define RD_IO_FILE_INTERNAL_H

#include "io/io.h"

typedef struct io_source {
  const char *label; /* path or "memory", for messages */
  const unsigned char *memory;
  int fd;
  uint64_t size;
} io_source;

/* Opens a regular file. */
io_status io_source_open(io_source *source, const char *path, io_error *err);
io_source io_source_memory(const void *bytes, size_t size);
io_status io_source_read(const io_source *source, uint64_t offset, void *to, uint64_t bytes,
                         io_error *err);
void io_source_close(io_source *source);

/* Status of a failed system call on a name the user gave. */
io_status io_errno_status(int error);

/* extents >= 0, elements * size without overflow. `what` names the tensor. */
io_status io_checked_bytes(const char *what, const io_dtype *dtype, int32_t rank,
                           const int64_t *shape, uint64_t *bytes, io_error *err);

/* io_file_add for a name known to be new: no search, so a header of many names stays linear. `bytes`
 * is the size of an unknown type (dtype->size 0, copied), for others the shape gives it. */
io_status io_file_append(io_file *file, const char *name, const io_dtype *dtype, int32_t rank,
                         const int64_t *shape, uint64_t bytes, io_tensor **out, io_error *err);

#endif
