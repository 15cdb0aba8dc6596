#include "measure/step_clock.h"

#include <chrono>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace optrush {
namespace {
size_t at(Bucket bucket) { return static_cast<size_t>(bucket); }

/// Measures a step by marks. `Moment` is a reading of the clock on a CPU, and an event on a GPU.
template <class Moment>
class MarkedClock final : public StepClock {
 public:
  void enter(Bucket bucket) override { marks_.push_back({Moment(), bucket}); }
  void end_step() override {
    enter(Bucket::off);
    ended_.push_back(std::move(marks_));
    marks_.clear();
  }
  std::optional<Bucket> present() const override {
    return marks_.empty() ? std::nullopt : std::optional(marks_.back().bucket);
  }
  std::optional<StepTime> take(bool wait) override {
    if (ended_.empty() || (!wait && !ended_.front().back().moment.done())) return {};
    const auto marks = std::move(ended_.front());
    ended_.pop_front();
    marks.back().moment.wait();
    StepTime time;
    for (size_t i = 0; i + 1 < marks.size(); ++i) {
      time.seconds[at(marks[i].bucket)] += marks[i + 1].moment.seconds_since(marks[i].moment);
      time.seen[at(marks[i].bucket)] = true;
    }
    return time;
  }

 private:
  struct Mark {
    Moment moment;
    Bucket bucket;
  };
  std::vector<Mark> marks_;
  std::deque<std::vector<Mark>> ended_;
};

class CpuMoment {
 public:
  bool done() const { return true; }
  void wait() const {}
  double seconds_since(const CpuMoment& start) const {
    return std::chrono::duration<double>(time_ - start.time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

#ifdef OPTRUSH_HAS_CUDA
void check(cudaError_t status) {
  if (status != cudaSuccess)
    throw Error(ErrorCode::internal, std::string("CUDA event: ") + cudaGetErrorString(status));
}

class CudaEvent {
 public:
  CudaEvent() {
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, cudaEventDefault));
    event_.reset(made);
    check(cudaEventRecord(made, c10::cuda::getCurrentCUDAStream()));
  }
  bool done() const {
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears cudaErrorNotReady, which the next check of a launch would report
      return false;
    }
    check(status);
    return true;
  }
  void wait() const { check(cudaEventSynchronize(event_.get())); }
  double seconds_since(const CudaEvent& start) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_.get(), event_.get()));
    return milliseconds * 1e-3;
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};
#endif
}  // namespace

const char* name_of(Bucket bucket) {
  static constexpr std::array<const char*, kBuckets> kNames = {
      "data", "forward", "backward", "communication", "optimizer", "bookkeeping", "whole"};
  return kNames.at(at(bucket));
}

double StepTime::total() const {
  double sum = 0;
  for (size_t i = 0; i < kBuckets; ++i)
    if (i != at(Bucket::off)) sum += seconds[i];
  return sum;
}

std::unique_ptr<StepClock> StepClock::make(at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) return std::make_unique<MarkedClock<CudaEvent>>();
#endif
  // Work on the simulated device is complete when it is enqueued.
  if (!device.is_cpu() && !device.is_privateuseone())
    throw Error(ErrorCode::unsupported, "no clock for device '" + device.str() + "'");
  return std::make_unique<MarkedClock<CpuMoment>>();
}
}  // namespace optrush
