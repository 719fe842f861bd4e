/* Files: reading regular ones, refusing to overwrite an input. SPDX-License-Identifier: Apache-2.0
 */
#include "io/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

io_status io_errno_status(int error) {
  switch (error) {
  case ENOENT:
  case ENOTDIR:
  case EISDIR:
  case ENAMETOOLONG:
  case ELOOP:
    return IO_BAD;
  default:
    return IO_SYSTEM;
  }
}

io_status io_source_open(io_source *source, const char *path, io_error *err) {
  /* Non-blocking, so that opening a named pipe is an error message and not a wait. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return io_fail(err, io_errno_status(errno), "%s: cannot open: %s", path, strerror(errno));
  }
  struct stat st;
  if (fstat(fd, &st) != 0) {
    io_fail(err, IO_SYSTEM, "%s: cannot stat: %s", path, strerror(errno));
    close(fd);
    return IO_SYSTEM;
  }
  if (!S_ISREG(st.st_mode)) {
    close(fd);
    return io_fail(err, IO_BAD, "%s: not a regular file", path);
  }
  *source = (io_source){.label = path, .fd = fd, .size = (uint64_t)st.st_size};
  return IO_OK;
}

io_source io_source_memory(const void *bytes, size_t size) {
  return (io_source){.label = "memory", .memory = bytes, .fd = -1, .size = size};
}

io_status io_source_read(const io_source *source, uint64_t offset, void *to, uint64_t bytes,
                         io_error *err) {
  if (source->memory != NULL) {
    if (bytes != 0) memcpy(to, source->memory + offset, (size_t)bytes);
    return IO_OK;
  }
  unsigned char *at = to;
  while (bytes > 0) {
    size_t step = bytes < (1u << 30) ? (size_t)bytes : (size_t)1 << 30;
    ssize_t n = pread(source->fd, at, step, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return io_fail(err, IO_SYSTEM, "%s: cannot read: %s", source->label, strerror(errno));
    }
    if (n == 0) {
      return io_fail(err, IO_BAD, "%s: the file became shorter while it was read", source->label);
    }
    at += n;
    offset += (uint64_t)n;
    bytes -= (uint64_t)n;
  }
  return IO_OK;
}

void io_source_close(io_source *source) {
  if (source->fd >= 0) close(source->fd);
  source->fd = -1;
}

io_status io_refuse_same_file(const char *out, const char *in, io_error *err) {
  struct stat a, b;
  if (stat(out, &a) != 0 || stat(in, &b) != 0) return IO_OK;
  if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
    return io_fail(err, IO_BAD, "%s: output and input %s are the same file", out, in);
  }
  return IO_OK;
}
