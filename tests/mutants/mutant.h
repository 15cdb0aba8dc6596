// The first include of every source with mutants. Selects the active mutant and records the reached ones.
//   OPTRUSH_MUTANT=17           activates mutant 17 in this process and its children
//   OPTRUSH_MUTANT_REACH=FILE   byte 17 of FILE becomes 1 when a process reaches the place of mutant 17
// The file is a shared mapping, so it is correct after a crash or _exit.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

struct OptrushMutants {
  int active = 0;
  int known = 0;
  unsigned char* reached = nullptr;

  OptrushMutants() {
    if (const char* id = getenv("OPTRUSH_MUTANT")) active = atoi(id);
    const char* path = getenv("OPTRUSH_MUTANT_REACH");
    const int file = path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    struct stat status = {};
    if (fstat(file, &status) == 0) {
      void* mapped = mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (mapped != MAP_FAILED) {
        reached = static_cast<unsigned char*>(mapped);
        known = static_cast<int>(status.st_size);
      }
    }
    close(file);
  }
};

/// Static: each source has a copy, so that no plugin or library is linked to another by it.
static inline bool optrush_mutant(int id) {
  static const OptrushMutants mutants;
  if (id < mutants.known) mutants.reached[id] = 1;
  return id == mutants.active;
}
