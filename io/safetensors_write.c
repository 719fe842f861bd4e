/* Writing without ever leaving half a file. SPDX-License-Identifier: Apache-2.0 */
#include "io/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char io_temporary_name[PATH_MAX + 64];

static int by_width(const void *a, const void *b) {
  const io_tensor *x = *(const io_tensor *const *)a, *y = *(const io_tensor *const *)b;
  if (x->dtype->size != y->dtype->size) return x->dtype->size > y->dtype->size ? -1 : 1;
  return x < y ? -1 : x > y; /* both point into one array: this keeps the order */
}

/* The header, padded with blanks so that the data start on a multiple of IO_ALIGN. */
static char *make_header(const io_tensor *const *order, size_t count, size_t *size) {
  json_t *root = json_object();
  uint64_t at = 0;
  for (size_t i = 0; i < count; i++) {
    json_t *shape = json_array();
    for (int32_t d = 0; d < order[i]->rank; d++) {
      json_array_append_new(shape, json_integer(order[i]->shape[d]));
    }
    json_t *one = json_pack("{s:s, s:o, s:[I, I]}", "dtype", order[i]->dtype->name, "shape", shape,
                            "data_offsets", (json_int_t)at, (json_int_t)(at + order[i]->bytes));
    if (one == NULL || json_object_set_new(root, order[i]->name, one) != 0) {
      json_decref(root);
      return NULL;
    }
    at += order[i]->bytes;
  }
  char *text = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (text == NULL) return NULL;
  size_t length = strlen(text), padded = (length + 8 + IO_ALIGN - 1) / IO_ALIGN * IO_ALIGN - 8;
  char *header = realloc(text, padded + 1);
  if (header == NULL) {
    free(text);
    return NULL;
  }
  memset(header + length, ' ', padded - length);
  *size = padded;
  return header;
}

static int write_all(int fd, const void *data, uint64_t bytes) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = write(fd, at, bytes < (1u << 30) ? (size_t)bytes : (size_t)1 << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    at += n;
    bytes -= (uint64_t)n;
  }
  return 0;
}

static int write_tensors(int fd, const io_tensor *const *order, size_t count, const char *header,
                         size_t size) {
  unsigned char le[8];
  for (int i = 0; i < 8; i++) le[i] = (unsigned char)((uint64_t)size >> (8 * i));
  if (write_all(fd, le, sizeof le) != 0 || write_all(fd, header, size) != 0) return -1;
  for (size_t i = 0; i < count; i++) {
    if (write_all(fd, order[i]->data, order[i]->bytes) != 0) return -1;
  }
  return fsync(fd);
}

/* Where `path` really is: a symbolic link is followed, so that it stays one. */
static io_status resolve(const char *path, char real[PATH_MAX], io_error *err) {
  struct stat st;
  if (stat(path, &st) == 0) {
    if (!S_ISREG(st.st_mode)) {
      return io_fail(err, IO_BAD, "%s: exists and is not a regular file", path);
    }
    if (realpath(path, real) != NULL) return IO_OK;
  } else if (errno == ENOENT) {
    struct stat link;
    if (lstat(path, &link) == 0) return io_fail(err, IO_BAD, "%s: is a broken symbolic link", path);
    if ((size_t)snprintf(real, PATH_MAX, "%s", path) < PATH_MAX) return IO_OK;
    errno = ENAMETOOLONG;
  }
  return io_fail(err, io_errno_status(errno), "%s: %s", path, strerror(errno));
}

/* Folder of `real`, in `name`. */
static const char *folder_of(const char *real, char name[PATH_MAX]) {
  snprintf(name, PATH_MAX, "%s", real);
  char *slash = strrchr(name, '/');
  if (slash == NULL) return ".";
  slash[slash == name] = '\0';
  return name;
}

io_status io_check_output(const char *path, io_error *err) {
  char real[PATH_MAX], name[PATH_MAX];
  struct stat st;
  io_status status = resolve(path, real, err);
  if (status != IO_OK) return status;
  if (stat(folder_of(real, name), &st) == 0 && S_ISDIR(st.st_mode)) return IO_OK;
  return io_fail(err, IO_BAD, "%s: there is no such folder", path);
}

static int open_temporary(const char *real) {
  for (int attempt = 0; attempt < 100; attempt++) {
    snprintf(io_temporary_name, sizeof io_temporary_name, "%s.%ld-%d.tmp", real, (long)getpid(),
             attempt);
    int fd = open(io_temporary_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    if (errno != EEXIST) break;
  }
  io_temporary_name[0] = '\0';
  return -1;
}

/* A rename lasts only when its directory does. Some file systems cannot sync one: not an error. */
static void sync_directory(const char *real) {
  char name[PATH_MAX];
  int fd = open(folder_of(real, name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

static io_status write_and_rename(const char *path, const char *real, const io_tensor *const *order,
                                  size_t count, const char *header, size_t size, io_error *err) {
  int fd = open_temporary(real);
  if (fd < 0) {
    return io_fail(err, io_errno_status(errno), "%s: cannot create a file there: %s", path,
                   strerror(errno));
  }
  int failed = write_tensors(fd, order, count, header, size) != 0;
  int error = errno;
  if (close(fd) != 0 && !failed) failed = 1, error = errno;
  if (!failed && rename(io_temporary_name, real) != 0) failed = 1, error = errno;
  if (failed) unlink(io_temporary_name);
  io_temporary_name[0] = '\0';
  if (failed) return io_fail(err, IO_SYSTEM, "%s: cannot write: %s", path, strerror(error));
  sync_directory(real);
  return IO_OK;
}

io_status io_safetensors_write(const char *path, const io_file *file, io_error *err) {
  char real[PATH_MAX];
  io_status status = resolve(path, real, err);
  if (status != IO_OK) return status;
  const io_tensor **order = malloc((file->count + 1) * sizeof *order);
  if (order == NULL) return io_fail(err, IO_SYSTEM, "no memory");
  for (size_t i = 0; i < file->count; i++) order[i] = &file->tensors[i];
  qsort(order, file->count, sizeof *order, by_width);
  size_t size;
  char *header = make_header(order, file->count, &size);
  if (header != NULL) {
    status = write_and_rename(path, real, order, file->count, header, size, err);
  } else {
    status = io_fail(err, IO_SYSTEM, "%s: no memory for the header", path);
  }
  free(header);
  free(order);
  return status;
}
