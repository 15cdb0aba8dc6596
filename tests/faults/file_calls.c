// The calls of a program that decide what is on a disk and which processes end, recorded and disturbed.
// FAULT_CALLS: a file that gets a line "fsync PATH", "rename PATH" (the new name) or "remove PATH" for each call.
// FAULT_SLOW_FILE and FAULT_SLOW_SECONDS: fsync of the file whose path has this part takes so long; with FAULT_ONCE, a
// file, only while that exists, and it is removed.
// FAULT_FREE_BYTES: the free bytes of every file system.
// FAULT_UNKILLABLE: SIGKILL does not reach processes with this word in their command line.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

static void record(const char* call, const char* path) {
  const char* file = getenv("FAULT_CALLS");
  if (file == NULL) return;
  char line[4400];
  const int size = snprintf(line, sizeof line, "%s %s\n", call, path);
  const int out = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0 || write(out, line, (size_t)size) != size) abort();
  close(out);
}

int fsync(int descriptor) {
  static int (*real)(int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "fsync");
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size > 0) path[size] = '\0';
  const char *slow = getenv("FAULT_SLOW_FILE"), *once = getenv("FAULT_ONCE");
  if (slow != NULL && strstr(path, slow) != NULL && (once == NULL || unlink(once) == 0))
    usleep((useconds_t)(1e6 * atof(getenv("FAULT_SLOW_SECONDS"))));
  record("fsync", path);
  return real(descriptor);
}

int rename(const char* from, const char* to) {
  static int (*real)(const char*, const char*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "rename");
  record("rename", to);
  return real(from, to);
}

int unlinkat(int folder, const char* name, int flags) {
  static int (*real)(int, const char*, int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "unlinkat");
  record("remove", name);
  return real(folder, name, flags);
}

int statvfs(const char* path, struct statvfs* of) {
  static int (*real)(const char*, struct statvfs*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "statvfs");
  const int failed = real(path, of);
  const char* bytes = getenv("FAULT_FREE_BYTES");
  if (failed == 0 && bytes != NULL) {
    of->f_frsize = 1;
    of->f_bavail = of->f_bfree = strtoull(bytes, NULL, 10);
  }
  return failed;
}

int remove(const char* path) {
  static int (*real)(const char*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "remove");
  record("remove", path);
  return real(path);
}

static int is_spared(pid_t process) {
  const char* word = getenv("FAULT_UNKILLABLE");
  char path[64], words[4096] = "";
  if (word == NULL) return 0;
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process);
  const int in = open(path, O_RDONLY | O_CLOEXEC);
  if (in < 0) return 0;
  ssize_t size = read(in, words, sizeof words - 1);
  close(in);
  for (ssize_t i = 0; i + 1 < size; ++i)
    if (words[i] == '\0') words[i] = ' ';
  return strstr(words, word) != NULL;
}

int kill(pid_t process, int number) {
  static int (*real)(pid_t, int);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "kill");
  if (number == SIGKILL && is_spared(process < 0 ? -process : process)) return 0;
  return real(process, number);
}
