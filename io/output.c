/* Writing without ever leaving half a file. SPDX-License-Identifier: Apache-2.0 */
#include "io/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char io_temporary_names[IO_OUTPUTS][PATH_MAX + 64];

/* Where `path` really is: a symbolic link is followed, so that it stays one. */
static io_status resolve(const char *path, char real[PATH_MAX], io_error *err) {
  struct stat st;
  if (path[0] == '\0') return io_fail(err, IO_BAD, "the name of the output is empty");
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

/* The name does not grow with that of the file, which may be as long as the file system allows. */
static int open_temporary(const char *real, char *temporary) {
  char name[PATH_MAX];
  const char *folder = folder_of(real, name);
  for (int attempt = 0; attempt < 100; attempt++) {
    snprintf(temporary, sizeof io_temporary_names[0], "%s/redelta-%ld-%d.tmp", folder,
             (long)getpid(), attempt);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    if (errno != EEXIST) break;
  }
  temporary[0] = '\0';
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

io_status io_output_open(io_output *out, const char *path, io_error *err) {
  *out = (io_output){.path = path, .fd = -1};
  io_status status = resolve(path, out->real, err);
  if (status != IO_OK) return status;
  for (int i = 0; i < IO_OUTPUTS && out->temporary == NULL; i++)
    if (io_temporary_names[i][0] == '\0') out->temporary = io_temporary_names[i];
  if (out->temporary == NULL) return io_fail(err, IO_SYSTEM, "%s: too many outputs at once", path);
  out->fd = open_temporary(out->real, out->temporary);
  if (out->fd >= 0) return IO_OK;
  return io_fail(err, io_errno_status(errno), "%s: cannot create a file there: %s", path,
                 strerror(errno));
}

io_status io_output_close(io_output *out, int failed, io_error *err) {
  int error = errno;
  if (!failed && fsync(out->fd) != 0) failed = 1, error = errno;
  if (close(out->fd) != 0 && !failed) failed = 1, error = errno;
  if (!failed && rename(out->temporary, out->real) != 0) failed = 1, error = errno;
  if (failed) unlink(out->temporary);
  out->temporary[0] = '\0';
  out->fd = -1;
  if (failed) return io_fail(err, IO_SYSTEM, "%s: cannot write: %s", out->path, strerror(error));
  sync_directory(out->real);
  return IO_OK;
}
