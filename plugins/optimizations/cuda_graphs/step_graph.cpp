#include "step_graph.h"

#include <optional>

#include "optrush/error.h"
#include "optrush/step.h"
#include "static_batches.h"
#ifdef OPTRUSH_HAS_CUDA
#include <ATen/Functions.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

// These are in libtorch_cuda, which a process without a GPU does not open: weak, they may be missing there.
// (GCC's pragma does not know mangled names.)
asm(R"(.weak _ZN2at4cuda9CUDAGraphC1Eb
.weak _ZN2at4cuda9CUDAGraphD1Ev
.weak _ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode
.weak _ZN2at4cuda9CUDAGraph11capture_endEv
.weak _ZN2at4cuda9CUDAGraph6replayEv)");
#endif

namespace optrush::cuda_graphs {
#ifdef OPTRUSH_HAS_CUDA
class StepGraph::Implementation {
 public:
  explicit Implementation(at::Device device)
      : device_(device), stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  void run_eagerly(Step& step, const Schedule& schedule) const {
    const OnStream here(*this);
    schedule(step);
  }

  void record(Step& step, const Schedule& schedule) {
    batches_.emplace(step);
    // Recording allocates from a separate pool. The cached memory of the eager steps would stay reserved
    // beside it. Blocks return to the driver when the work that used them is done.
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    const OnStream here(*this);
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    c10::cuda::CUDACachingAllocator::resetPeakStats(device_.index());
    // Calls of other threads, such as a watchdog's query of an event, do not concern the recording.
    graph_->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      schedule(step);
    } catch (...) {
      end_failed_capture();
      throw;  // the first cause
    }
    try {
      graph_->capture_end();
    } catch (const std::exception& e) {
      graph_.reset();
      throw Error(ErrorCode::unsupported,
                  std::string("CUDA did not record the step, although none of its calls failed: ") + e.what(),
                  "remove the plugin that called CUDA in this step and ignored its error");
    }
    const auto active = active_bytes();
    freed_ = active.peak - active.current;
    outcome_ = step.outcome();
    launch(step);
  }

  void replay(Step& step) const {
    const OnStream here(*this);
    batches_->copy_from(step);
    launch(step);
    step.add_uncounted_memory(freed_);
  }

 private:
  c10::CachingAllocator::Stat active_bytes() const {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
    return stats.active_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  }

  void launch(Step& step) const {
    graph_->replay();
    // The next replay writes into the same tensors.
    const auto own = [](const Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; };
    step.set_outcome({own(outcome_.loss), own(outcome_.gradient_norm), own(outcome_.skipped)});
  }

  /// Work on the current stream, before and after, keeps its order with work on this stream.
  class OnStream {
   public:
    explicit OnStream(const Implementation& graph)
        : outer_(c10::cuda::getCurrentCUDAStream(graph.device_.index())), inner_(graph.stream_) {
      order(outer_, inner_);
      guard_.emplace(inner_);
    }
    ~OnStream() {
      guard_.reset();
      order(inner_, outer_);
    }
    OnStream(const OnStream&) = delete;
    OnStream& operator=(const OnStream&) = delete;

   private:
    static void order(const c10::cuda::CUDAStream& first, const c10::cuda::CUDAStream& then) {
      c10::Event done(at::kCUDA);
      done.record(first.unwrap());
      done.block(then.unwrap());
    }
    c10::cuda::CUDAStream outer_, inner_;
    std::optional<c10::cuda::CUDAStreamGuard> guard_;
  };

  void end_failed_capture() noexcept {
    try {
      graph_->capture_end();
    } catch (const std::exception&) {  // a consequence of the schedule's error
    }
    graph_.reset();
  }

  at::Device device_;
  c10::cuda::CUDAStream stream_;
  std::optional<StaticBatches> batches_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  StepOutcome outcome_;
  int64_t freed_ =
      0;  ///< bytes that the allocator no longer counts after the recording, and each replay uses
};
#else
class StepGraph::Implementation {
 public:
  explicit Implementation(at::Device) {
    throw Skip("this program was built against a LibTorch without CUDA",
               "build against a LibTorch with CUDA (OPTRUSH_TORCH)");
  }
  void run_eagerly(Step&, const Schedule&) const {}
  void record(Step&, const Schedule&) {}
  void replay(Step&) const {}
};
#endif

StepGraph::StepGraph(at::Device device) : implementation_(std::make_unique<Implementation>(device)) {}
StepGraph::~StepGraph() = default;
void StepGraph::run_eagerly(Step& step, const Schedule& schedule) {
  implementation_->run_eagerly(step, schedule);
}
void StepGraph::record(Step& step, const Schedule& schedule) { implementation_->record(step, schedule); }
void StepGraph::replay(Step& step) { implementation_->replay(step); }
}  // namespace optrush::cuda_graphs
