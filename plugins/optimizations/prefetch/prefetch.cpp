// Data loading: while a step runs, a separate thread makes the next step's batches, like the workers of
// PyTorch's DataLoader, one step ahead. It saves at most the `data` part of a step: much if batches are
// decoded, tokenized or read from slow storage, little if tokens are mapped from a file. If making them takes
// longer than the step, the step waits at its end, and the time counts for its last phase. One more step's
// batches are in memory. No other thread may allocate during the recording of a CUDA graph, so the two
// exclude each other.
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

using Data = std::function<std::vector<Batch>(int64_t step)>;

/// Makes the batches of each step, one step ahead.
class Ahead {
 public:
  Ahead(Data data, at::Device device) : data_(std::move(data)), device_(device) {
    // The simulated device supports only one thread.
    if (!device.is_privateuseone())
      thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  std::vector<Batch> operator()(int64_t step) {
    std::vector<Batch> batches = next_.valid() && step_ == step ? next_.get() : data_(step);
    step_ = step + 1;
    Task task([this, step = step_] {
      // Otherwise the count of a step's operators would include those of this thread.
      const at::DisableRecordFunctionGuard uncounted;
      const c10::DeviceGuard guard(device_);
      return data_(step);
    });
    next_ = task.get_future();
    hand_over(std::move(task));
    return batches;
  }

  /// Waits for the requested batches.
  void settle() const {
    if (next_.valid()) next_.wait();
  }

 private:
  using Task = std::packaged_task<std::vector<Batch>()>;

  void hand_over(Task task) {
    if (!thread_.joinable()) return task();
    {
      const std::lock_guard lock(mutex_);
      task_ = std::move(task);
    }
    asked_.notify_one();
  }

  void work(const std::stop_token& stop) {
    while (true) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        if (!asked_.wait(lock, stop, [this] { return task_.valid(); })) return;
        task = std::move(task_);
      }
      task();
    }
  }

  Data data_;
  at::Device device_;
  int64_t step_ = 0;  ///< of next_
  std::future<std::vector<Batch>> next_;
  std::mutex mutex_;
  std::condition_variable_any asked_;
  Task task_;
  std::jthread thread_;  ///< the last member, so that it ends before the members that it uses
};

class Prefetch final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    recipe.on(Event::ready, Phase::prefetch, [this](Run& run) { device_ = run.device(); });
    // The slot's function owns it, not the plugin, so that it ends before the data that it reads.
    recipe.data.wrap(Phase::prefetch,
                     [this](Data inner) -> Data {
                       auto ahead = std::make_shared<Ahead>(inner, device_);
                       ahead_ = ahead;
                       return [ahead, inner = std::move(inner)](int64_t step) {
                         return evaluating() ? inner(step) : (*ahead)(step);
                       };
                     },
                     {.trace = Trace::aten});
    // No batch is made during a validation or the turn of another run.
    recipe.schedule.wrap(Phase::prefetch,
                         [this](auto inner) {
                           return [this, inner](Step& step) {
                             inner(step);
                             if (const auto ahead = ahead_.lock()) ahead->settle();
                           };
                         },
                         {.trace = Trace::aten});
  }

 private:
  std::weak_ptr<Ahead> ahead_;
  at::Device device_ = at::kCPU;
};
}  // namespace

OPTRUSH_PLUGIN(Prefetch, R"json({
  "name": "prefetch", "version": "0.1.0", "kind": "optimization", "effect": "exact",
  "summary": "the batches of the next step are prepared during the present step",
  "conflicts": ["cuda_graphs"],
  "options": []
})json");
