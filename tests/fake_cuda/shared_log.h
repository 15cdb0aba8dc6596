// A file to which the processes of a run append lines. All processes read the lines in the same order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fake_cuda {
class SharedLog {
 public:
  /// Called with each line in order, including lines of this process. `own` is true in the process that wrote
  /// the line.
  using Reader = std::function<void(const std::string& line, bool own)>;
  /// FAKE_CUDA_NCCL names the file. Without it, the log is local to this process.
  explicit SharedLog(Reader reader);
  SharedLog(const SharedLog&) = delete;
  SharedLog& operator=(const SharedLog&) = delete;
  ~SharedLog();

  /// Reads new lines.
  void read();
  /// Appends a line atomically: reads all earlier lines first.
  void append(const std::string& line);

 private:
  void lock(int16_t kind) const;
  void read_to_end(size_t own_from);

  Reader reader_;
  int file_ = -1;
  size_t position_ = 0;
  std::string rest_;  // an incomplete line
};
}  // namespace fake_cuda
