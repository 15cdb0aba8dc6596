// A file that the processes of a run append lines to. All read them in one order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fake_cuda {
class SharedLog {
 public:
  /// Called with each line in its order, those of this process included; `own` in the process that wrote it.
  using Reader = std::function<void(const std::string& line, bool own)>;
  /// FAKE_CUDA_NCCL names the file. Without it the log is of this process alone.
  explicit SharedLog(Reader reader);
  SharedLog(const SharedLog&) = delete;
  SharedLog& operator=(const SharedLog&) = delete;
  ~SharedLog();

  /// Reads what others wrote.
  void read();
  /// No line of another process comes between what is read before and this line.
  void append(const std::string& line);

 private:
  void lock(int16_t kind) const;
  void read_to_end(size_t own_from);

  Reader reader_;
  int file_ = -1;
  size_t position_ = 0;
  std::string rest_;  // of a line that is not whole yet
};
}  // namespace fake_cuda
