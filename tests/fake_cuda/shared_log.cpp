#include "shared_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "settings.h"

namespace fake_cuda {
SharedLog::SharedLog(Reader reader) : reader_(std::move(reader)) {
  const std::string& path = Settings::get().nccl;
  file_ = path.empty() ? memfd_create("fake_cuda_nccl", 0)
                       : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) {
    std::fprintf(stderr, "fake_cuda: %s can't be opened (FAKE_CUDA_NCCL)\n", path.c_str());
    std::_Exit(2);
  }
}
SharedLog::~SharedLog() { close(file_); }

/// The lock belongs to this process. A fork does not inherit it.
void SharedLog::lock(int16_t kind) const {
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  while (fcntl(file_, F_SETLKW, &range) != 0) {
  }
}

void SharedLog::read() { read_to_end(SIZE_MAX); }

void SharedLog::append(const std::string& line) {
  lock(F_WRLCK);
  read();
  const std::string text = line + "\n";
  const size_t before = position_;
  if (pwrite(file_, text.data(), text.size(), static_cast<off_t>(before)) !=
      static_cast<ssize_t>(text.size())) {
    std::perror("fake_cuda: the log of NCCL's calls");
    std::abort();
  }
  read_to_end(before);
  lock(F_UNLCK);
}

void SharedLog::read_to_end(size_t own_from) {
  std::array<char, 1 << 16> block{};
  while (true) {
    const ssize_t got = pread(file_, block.data(), block.size(), static_cast<off_t>(position_));
    if (got <= 0) return;
    for (ssize_t i = 0; i < got; ++i) {
      ++position_;
      if (block[static_cast<size_t>(i)] != '\n') {
        rest_ += block[static_cast<size_t>(i)];
        continue;
      }
      const std::string line = std::exchange(rest_, {});
      reader_(line, position_ > own_from);
    }
  }
}
}  // namespace fake_cuda
