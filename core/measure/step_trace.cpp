#include "measure/step_trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>

namespace optrush {
namespace {
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
}  // namespace

StepTrace::StepTrace(at::Device device) {
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                     /*report_input_shapes=*/true);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
}

StepTrace::~StepTrace() {
  range_.reset();
  if (running_) profiler::disableProfiler();
}

void StepTrace::save(const std::filesystem::path& file) {
  running_ = false;
  const auto result = profiler::disableProfiler();
  const std::filesystem::path unfinished = file.string() + ".tmp";
  result->save(unfinished.string());
  std::filesystem::rename(unfinished, file);
}

void StepTrace::enter(std::optional<Bucket> bucket) {
  range_.reset();
  if (!bucket) return;
  range_.emplace(at::RecordScope::USER_SCOPE);
  if (range_->isActive()) range_->before(bucket == Bucket::whole ? "step" : name_of(*bucket));
}
}  // namespace optrush
