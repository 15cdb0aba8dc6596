#include "launch/run/traced_step.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr size_t kWorks = 6;  ///< without `none`
constexpr std::array<const char*, kWorks> kWorkNames = {"product",     "attention", "loss",
                                                        "elementwise", "optimizer", "communication"};

/// Parts of names in lower case, separated by spaces.
struct Parts {
  WorkKind work;
  std::string_view parts;
};
/// The first list with a part of the name decides. Attention precedes products because its kernels contain
/// names of product libraries; the loss precedes attention because both have a softmax.
constexpr Parts kPartsOfNames[] = {
    {WorkKind::communication, "nccl gloo: c10d::"},
    {WorkKind::optimizer, "adam"},
    {WorkKind::loss, "log_softmax logsoftmax nll_loss cross_entropy"},
    {WorkKind::attention, "scaled_dot_product flash fmha sdpa attention softmax"},
    {WorkKind::product,
     "gemm gemv gett_ cutlass cublas nvjet xmma splitk _linear_pointwise mkldnn_linear triton_tem_"},
};

// Operators of "aten::", without a final "_".
constexpr std::string_view kProducts =
    "_addmm_activation _grouped_mm _int_mm _scaled_grouped_mm _scaled_mm _scaled_mm_v2 addbmm addmm addmv "
    "baddbmm bmm dot mm mv vdot";
constexpr std::string_view kComputeNothing =
    "_local_scalar_dense _reshape_alias _unsafe_view alias as_strided contiguous detach einsum empty "
    "empty_like empty_strided expand expand_as flatten is_nonzero item lift_fresh linear matmul movedim "
    "narrow new_empty new_empty_strided numpy_t permute promote_types reshape resize resolve_conj "
    "resolve_neg result_type select slice split split_with_sizes squeeze t to transpose unbind unflatten "
    "unsafe_split unsqueeze view view_as";

/// Starts of the names of what computes: operators, compiled code, and symbols and copies of a GPU. Other
/// names are of autograd's nodes, of Python and of ranges.
constexpr std::string_view kStarts =
    "aten:: prims:: optrush:: mkldnn:: quantized:: triton_ cpp_fused_ inductor:: ##_call_ void_ mem _z";

/// Whether any word of a list passes the test.
bool any_word(std::string_view words, const std::function<bool(std::string_view word)>& test) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (test(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

WorkKind kind_of_operator(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  const auto is_name = [&](std::string_view word) { return word == name; };
  if (any_word(kProducts, is_name)) return WorkKind::product;
  return any_word(kComputeNothing, is_name) ? WorkKind::none : WorkKind::elementwise;
}
}  // namespace

WorkKind kind_of_work(std::string_view written) {
  constexpr std::string_view kAten = "aten::";
  std::string name(written);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return c == ' ' ? '_' : static_cast<char>(std::tolower(c)); });
  if (name.starts_with("autograd::") || name.starts_with("torch::autograd")) return WorkKind::none;
  for (const auto& [work, parts] : kPartsOfNames)
    if (any_word(parts, [&](std::string_view part) { return name.find(part) != std::string::npos; }))
      return work;
  if (name.starts_with(kAten)) return kind_of_operator(std::string_view(name).substr(kAten.size()));
  const bool computes = name.find("kernel") != std::string::npos ||
                        any_word(kStarts, [&](std::string_view start) { return name.starts_with(start); });
  return computes ? WorkKind::elementwise : WorkKind::none;
}

WorkKind kind_of_work(std::string_view name, WorkKind caller) {
  const WorkKind own = kind_of_work(name);
  if (own == WorkKind::communication || caller == WorkKind::none) return own;
  if (caller == WorkKind::elementwise) return own == WorkKind::none ? caller : own;
  return caller == WorkKind::loss && own == WorkKind::product ? own : caller;
}

namespace {
constexpr std::string_view kTracedPhases[] = {"data",          "forward",   "backward",
                                              "communication", "optimizer", "step"};

/// An event with a duration. Times are microseconds.
struct TraceEvent {
  std::string category, name, thread;
  double begin = 0, end = 0;
  int64_t correlation = -1;  ///< the same for a kernel and the call that launched it
};

/// Time of one kind: the index of a WorkKind, or one of the constants below.
struct Span {
  double begin, end;
  size_t kind;
};
constexpr size_t kNotInTheStep = kWorks, kInTheStep = kWorks + 1, kSpanKinds = kWorks + 2;
size_t index_of(WorkKind work) { return static_cast<size_t>(work); }

/// None if the event has no duration.
std::optional<TraceEvent> event_of(const Json& json) {
  if (json.value("ph", Json()) != "X") return std::nullopt;
  const auto text = [&](const char* key) {
    const Json value = json.value(key, Json(""));
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const double begin = json.value("ts", 0.0);
  const Json arguments = json.value("args", Json::object());
  return TraceEvent{.category = text("cat"),
                    .name = text("name"),
                    .thread = text("tid"),
                    .begin = begin,
                    .end = begin + json.value("dur", 0.0),
                    .correlation = arguments.value("correlation", int64_t{-1})};
}

std::vector<TraceEvent> events_of(const std::string& trace) try {
  std::vector<TraceEvent> events;
  // Each event is read when it is complete, because a document of all events takes much memory.
  const Json document = Json::parse(trace, [&](int depth, Json::parse_event_t at, Json& item) {
    if (depth != 2 || at != Json::parse_event_t::object_end) return true;
    if (auto event = event_of(item)) events.push_back(std::move(*event));
    return false;
  });
  document.at("traceEvents");  // throws for a document of another kind
  // A call precedes what it calls.
  std::ranges::stable_sort(events, [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  return events;
} catch (const Json::exception&) {
  throw Error(ErrorCode::invalid_file, "it is not a Chrome trace of LibTorch's profiler");
}

bool is_of_gpu(const TraceEvent& event) {
  return event.category == "kernel" || event.category == "gpu_memcpy" || event.category == "gpu_memset";
}

/// The phases of the step, in order of time.
class PhaseRanges {
 public:
  explicit PhaseRanges(const std::vector<TraceEvent>& events) {
    for (const TraceEvent& event : events)
      if (event.category == "user_annotation" && std::ranges::count(kTracedPhases, event.name) > 0)
        ranges_.push_back(event);
  }
  const std::vector<TraceEvent>& all() const { return ranges_; }
  /// The name of the phase at a time; "" between phases.
  std::string_view at(double time) const {
    const auto after = std::ranges::upper_bound(ranges_, time, {}, &TraceEvent::begin);
    if (after == ranges_.begin()) return "";
    return time < std::prev(after)->end ? std::string_view(std::prev(after)->name) : "";
  }
  /// What work of a kind counts for when it begins, or is launched, at this time.
  size_t counted(WorkKind work, double time) const {
    const std::string_view phase = at(time);
    if (phase.empty() && !ranges_.empty()) return kNotInTheStep;
    if (phase == "optimizer" && work != WorkKind::communication) return index_of(WorkKind::optimizer);
    return work == WorkKind::none ? kInTheStep : index_of(work);
  }

 private:
  std::vector<TraceEvent> ranges_;
};

/// Follows the calls of one thread.
class Calls {
 public:
  explicit Calls(const PhaseRanges& phases) : phases_(phases) {}

  /// Events come in order of their begin.
  void add(const TraceEvent& event) {
    return_before(event.begin);
    const WorkKind caller = present();
    if (!open_.empty()) pass(open_.back(), event.begin);
    const double end = open_.empty() ? event.end : std::min(event.end, open_.back().end);
    open_.push_back({event.begin, end, kind_of_work(event.name, caller)});
  }
  /// The kind of the innermost call at a time.
  WorkKind at(double time) {
    return_before(time);
    return present();
  }
  std::vector<Span> ended() {
    return_before(std::numeric_limits<double>::infinity());
    return std::move(spans_);
  }

 private:
  struct Call {
    double counted_to, end;
    WorkKind work;
  };
  WorkKind present() const { return open_.empty() ? WorkKind::none : open_.back().work; }
  void pass(Call& call, double time) {
    if (time > call.counted_to)
      spans_.push_back({call.counted_to, time, phases_.counted(call.work, call.counted_to)});
    call.counted_to = time;
  }
  void return_before(double time) {
    while (!open_.empty() && open_.back().end <= time) {
      const double end = open_.back().end;
      pass(open_.back(), end);
      open_.pop_back();
      if (!open_.empty()) open_.back().counted_to = std::max(open_.back().counted_to, end);
    }
  }

  const PhaseRanges& phases_;
  std::vector<Call> open_;
  std::vector<Span> spans_;
};

/// The work of the kernels, and the step from the first to the last.
std::vector<Span> spans_of_gpu(const std::vector<TraceEvent>& events, const PhaseRanges& phases) {
  struct Launch {
    double time;
    WorkKind caller;
  };
  std::map<std::string_view, Calls> threads;
  std::unordered_map<int64_t, Launch> launches;
  for (const TraceEvent& event : events) {
    if (event.category != "cpu_op" && (event.correlation < 0 || is_of_gpu(event))) continue;
    Calls& thread = threads.try_emplace(event.thread, phases).first->second;
    if (event.category == "cpu_op")
      thread.add(event);
    else
      launches[event.correlation] = {event.begin, thread.at(event.begin)};
  }
  std::vector<Span> spans;
  Span step{std::numeric_limits<double>::infinity(), 0, kInTheStep};
  for (const TraceEvent& event : events) {
    if (!is_of_gpu(event)) continue;
    const auto found = launches.find(event.correlation);
    const bool known = found != launches.end();
    WorkKind work = kind_of_work(event.name, known ? found->second.caller : WorkKind::none);
    if (work == WorkKind::none) work = WorkKind::elementwise;  // a kernel with any name computes
    const size_t kind = known ? phases.counted(work, found->second.time) : index_of(work);
    spans.push_back({event.begin, event.end, kind});
    if (kind == kNotInTheStep) continue;
    step.begin = std::min(step.begin, event.begin);
    step.end = std::max(step.end, event.end);
  }
  spans.push_back(step);
  return spans;
}

/// The work of the operators themselves, and the phases.
std::vector<Span> spans_of_cpu(const std::vector<TraceEvent>& events, const PhaseRanges& phases) {
  std::map<std::string_view, Calls> threads;
  Span all{std::numeric_limits<double>::infinity(), 0, kInTheStep};
  for (const TraceEvent& event : events) {
    if (event.category != "cpu_op") continue;
    threads.try_emplace(event.thread, phases).first->second.add(event);
    all.begin = std::min(all.begin, event.begin);
    all.end = std::max(all.end, event.end);
  }
  std::vector<Span> spans;
  for (auto& [thread, calls] : threads) std::ranges::move(calls.ended(), std::back_inserter(spans));
  // Phases alone say what is in the step: on another thread an operator may begin before one, or end after
  // it.
  std::erase_if(spans,
                [](const Span& span) { return span.kind == kNotInTheStep || span.kind == kInTheStep; });
  for (const TraceEvent& phase : phases.all()) {
    spans.push_back({phase.begin, phase.end, kInTheStep});
    if (phase.name == "communication")
      spans.push_back({phase.begin, phase.end, index_of(WorkKind::communication)});
  }
  if (phases.all().empty()) spans.push_back(all);
  return spans;
}

/// Microseconds by kind, the last of gaps.
std::array<double, kWorks + 1> sums_of(const std::vector<Span>& spans) {
  struct Edge {
    double time;
    size_t kind;
    int change;
  };
  std::vector<Edge> edges;
  for (const auto& [begin, end, kind] : spans) {
    if (end <= begin) continue;
    edges.push_back({begin, kind, 1});
    edges.push_back({end, kind, -1});
  }
  std::ranges::sort(edges, {}, &Edge::time);
  std::array<double, kWorks + 1> sums{};
  std::array<int, kSpanKinds> active{};
  for (size_t i = 0; i < edges.size(); ++i) {
    active.at(edges[i].kind) += edges[i].change;
    if (i + 1 == edges.size() || active.at(kInTheStep) == 0) continue;
    const auto first = static_cast<size_t>(std::ranges::find_if(active, [](int count) { return count > 0; }) -
                                           active.begin());
    if (first == kNotInTheStep) continue;
    sums.at(std::min(first, kWorks)) += edges[i + 1].time - edges[i].time;
  }
  return sums;
}
}  // namespace

Phases traced_step(const std::string& trace) {
  const std::vector<TraceEvent> events = events_of(trace);
  const PhaseRanges phases(events);
  const auto sums = sums_of(std::ranges::any_of(events, is_of_gpu) ? spans_of_gpu(events, phases)
                                                                   : spans_of_cpu(events, phases));
  Phases seconds;
  for (size_t i = 0; i < kWorks; ++i) seconds.emplace_back(kWorkNames.at(i), sums.at(i) * 1e-6);
  seconds.emplace_back("gaps", sums.back() * 1e-6);
  return seconds;
}

void add_traced_step(RunResult& result, const fs::path& run_folder) {
  for (const fs::path& file : {run_folder / "trace.json", run_folder / "ranks" / "0" / "trace.json"}) {
    if (!fs::is_regular_file(file)) continue;
    try {
      result.traced = traced_step(read_file(file));
    } catch (const Error& e) {
      result.notes.push_back("its trace cannot be summed: " + e.message());
    }
    return;
  }
}
}  // namespace optrush
