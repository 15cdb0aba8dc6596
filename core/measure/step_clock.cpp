#include "measure/step_clock.h"

#include <chrono>
#include <deque>
#include <vector>

#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace optrush {
namespace {
size_t at(Bucket bucket) { return static_cast<size_t>(bucket); }

class CpuClock final : public StepClock {
 public:
  void enter(Bucket bucket) override {
    const auto now = std::chrono::steady_clock::now();
    close(now);
    current_ = bucket;
    since_ = now;
    running_ = true;
  }
  void end_step() override {
    close(std::chrono::steady_clock::now());
    running_ = false;
    ended_.push_back(step_);
    step_ = {};
  }
  std::optional<Bucket> present() const override { return running_ ? std::optional(current_) : std::nullopt; }
  std::optional<StepTime> take(bool) override {
    if (ended_.empty()) return {};
    const StepTime first = ended_.front();
    ended_.pop_front();
    return first;
  }

 private:
  void close(std::chrono::steady_clock::time_point now) {
    if (!running_) return;
    step_.seconds[at(current_)] += std::chrono::duration<double>(now - since_).count();
    step_.seen[at(current_)] = true;
  }
  bool running_ = false;
  Bucket current_ = Bucket::off;
  std::chrono::steady_clock::time_point since_;
  StepTime step_;
  std::deque<StepTime> ended_;
};

#ifdef OPTRUSH_HAS_CUDA
void check(cudaError_t status) {
  if (status != cudaSuccess)
    throw Error(ErrorCode::internal, std::string("CUDA event: ") + cudaGetErrorString(status));
}

class CudaEvent {
 public:
  CudaEvent() { check(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~CudaEvent() { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void record() { check(cudaEventRecord(event_, c10::cuda::getCurrentCUDAStream())); }
  bool done() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears cudaErrorNotReady, which the next check of a launch would report
      return false;
    }
    check(status);
    return true;
  }
  void wait() const { check(cudaEventSynchronize(event_)); }
  double seconds_since(const CudaEvent& start) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaClock final : public StepClock {
 public:
  void enter(Bucket bucket) override { mark(bucket); }
  void end_step() override {
    mark(Bucket::off);
    ended_.push_back(std::move(marks_));
    marks_.clear();
  }
  std::optional<Bucket> present() const override {
    return marks_.empty() ? std::nullopt : std::optional(marks_.back().bucket);
  }
  std::optional<StepTime> take(bool wait) override {
    if (ended_.empty() || (!wait && !ended_.front().back().event->done())) return {};
    const auto marks = std::move(ended_.front());
    ended_.pop_front();
    marks.back().event->wait();
    StepTime time;
    for (size_t i = 0; i + 1 < marks.size(); ++i) {
      time.seconds[at(marks[i].bucket)] += marks[i + 1].event->seconds_since(*marks[i].event);
      time.seen[at(marks[i].bucket)] = true;
    }
    return time;
  }

 private:
  struct Mark {
    Bucket bucket;
    std::unique_ptr<CudaEvent> event;
  };
  void mark(Bucket bucket) {
    marks_.push_back({bucket, std::make_unique<CudaEvent>()});
    marks_.back().event->record();
  }
  std::vector<Mark> marks_;
  std::deque<std::vector<Mark>> ended_;
};
#endif
}  // namespace

double StepTime::total() const {
  double sum = 0;
  for (size_t i = 0; i < kBuckets; ++i)
    if (i != at(Bucket::off)) sum += seconds[i];
  return sum;
}

std::unique_ptr<StepClock> StepClock::make(at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) return std::make_unique<CudaClock>();
#endif
  // Work on the simulated device is complete when it is enqueued.
  if (!device.is_cpu() && !device.is_privateuseone())
    throw Error(ErrorCode::unsupported, "no clock for device '" + device.str() + "'");
  return std::make_unique<CpuClock>();
}
}  // namespace optrush
