#include "streams.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "ledger.h"
#include "peers.h"
#include "settings.h"

namespace fake_cuda {
namespace {
struct All {
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Graph*> graphs;
  std::set<std::unique_ptr<Capture>> captures;
  std::vector<Stream*> defaults;  // by device
  int next_stream = 0;
  uint64_t next_capture = 1;
  int traced_stream = -1;  // of the last work
  Clock host;              // work that the host has waited for
};
All& all() {
  static auto* const all = new All;
  return *all;
}

thread_local int device = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

uint64_t thread_id() { return static_cast<uint64_t>(gettid()); }

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

bool is_default(const Stream* stream) {
  return std::ranges::find(all().defaults, stream) != all().defaults.end();
}

Stream* default_stream() {
  auto& defaults = all().defaults;
  while (defaults.size() <= static_cast<size_t>(device))
    defaults.push_back(new_stream(static_cast<int>(defaults.size()), 0, 0));
  return defaults[static_cast<size_t>(device)];
}

/// The default stream and blocking streams of a device wait for each other.
void meet_default(Stream* stream) {
  if (stream->flags & cudaStreamNonBlocking) return;
  for (Stream* other : all().streams)
    if (other != stream && other->device == stream->device && !(other->flags & cudaStreamNonBlocking) &&
        (is_default(stream) || is_default(other)))
      merge(stream->clock, other->clock);
}
}  // namespace

void merge(Clock& into, const Clock& other) {
  for (const auto& [stream, work] : other) {
    uint64_t& known = into[stream];
    known = std::max(known, work);
  }
}

Stream* new_stream(int on_device, unsigned flags, int priority) {
  auto* stream = new Stream{all().next_stream++, on_device, flags, priority, {}, nullptr};
  all().streams.insert(stream);
  return stream;
}
bool destroy_stream(Stream* stream) {
  if (all().streams.erase(stream) == 0) return false;
  delete stream;
  return true;
}
Stream* stream_of(cudaStream_t handle) {
  if (reinterpret_cast<uint64_t>(handle) <= 2) return default_stream();
  auto* stream = reinterpret_cast<Stream*>(handle);
  return all().streams.contains(stream) ? stream : nullptr;
}

Event* new_event(unsigned flags) {
  auto* event = new Event{};
  event->flags = flags;
  all().events.insert(event);
  return event;
}
bool destroy_event(Event* event) {
  if (all().events.erase(event) == 0) return false;
  delete event;
  return true;
}
Event* event_of(cudaEvent_t handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  return all().events.contains(event) ? event : nullptr;
}

Graph* keep(std::unique_ptr<Graph> graph) { return *all().graphs.insert(graph.release()).first; }
Graph* graph_of(cudaGraph_t handle) {
  auto* graph = reinterpret_cast<Graph*>(handle);
  return all().graphs.contains(graph) ? graph : nullptr;
}
bool destroy_graph(Graph* graph) {
  if (all().graphs.erase(graph) == 0) return false;
  delete graph;
  return true;
}

int present_device() { return device; }
cudaError_t set_device(int wanted) {
  if (wanted < 0 || wanted >= Settings::get().devices) return fail(cudaErrorInvalidDevice);
  device = wanted;
  return cudaSuccess;
}
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode) {
  return std::exchange(capture_mode, mode);
}

cudaError_t begin_work(Stream* stream, const char* where) {
  if (stream->device != device)
    return fault(cudaErrorInvalidResourceHandle, where,
                 "device " + std::to_string(device) + " is current, the stream is of device " +
                     std::to_string(stream->device));
  if (stream->capture) {
    if (stream->capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
    if (stream != stream->capture->origin) stream->capture->unjoined.insert(stream);
  } else if (is_default(stream)) {  // the default stream would wait for a capturing stream
    for (const auto& capture : all().captures)
      for (Stream* member : capture->members)
        if (!(member->flags & cudaStreamNonBlocking)) {
          capture->broken = true;
          return fault(cudaErrorStreamCaptureImplicit, where,
                       "work on the default stream while a blocking stream captures");
        }
  }
  merge(stream->clock, all().host);
  meet_default(stream);
  ++stream->clock[stream->number];
  if (std::exchange(all().traced_stream, stream->number) != stream->number)
    trace("stream " + std::to_string(stream->number));
  return cudaSuccess;
}

cudaError_t record(Event* event, Stream* stream) {
  if (stream->device != device)
    return fault(cudaErrorInvalidResourceHandle, "cudaEventRecord",
                 "the stream is of another device than the current one");
  meet_default(stream);
  event->recorded = true;
  event->ms = now_ms();
  event->clock = stream->clock;
  merge(event->clock, all().host);
  event->stream = stream;
  event->stream_number = stream->number;
  event->capture = stream->capture ? stream->capture->id : 0;
  if (stream->capture && stream->capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
  return cudaSuccess;
}

cudaError_t wait(Stream* stream, Event* event) {
  const auto of = [](uint64_t id) -> Capture* {
    for (const auto& capture : all().captures)
      if (capture->id == id) return capture.get();
    return nullptr;
  };
  if (event->capture != 0) {
    Capture* capture = of(event->capture);
    if (!capture)
      return fault(cudaErrorCapturedEvent, "cudaStreamWaitEvent",
                   "the event was recorded in a capture that has ended");
    if (stream->capture && stream->capture != capture) {
      stream->capture->broken = capture->broken = true;
      return fault(cudaErrorStreamCaptureMerge, "cudaStreamWaitEvent", "the event is of another capture");
    }
    if (!stream->capture) {  // a fork: the stream joins the capture
      stream->capture = capture;
      capture->members.insert(stream);
    }
    capture->unjoined.erase(event->stream);
    if (stream != capture->origin) capture->unjoined.insert(stream);
  } else if (stream->capture && event->recorded) {
    stream->capture->broken = true;
    return fault(cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent",
                 "the event was recorded outside of the capture");
  }
  merge(stream->clock, event->clock);
  if (event->recorded && event->stream_number != stream->number)
    trace("order stream " + std::to_string(stream->number) + " after stream " +
          std::to_string(event->stream_number));
  return cudaSuccess;
}

namespace {
void note_wait(const char* where) {
  ++counts().waits;
  trace(std::string("wait ") + where);
}
}  // namespace

cudaError_t synchronize(Stream* stream, const char* where) {
  note_wait(where);
  if (stream->capture) {
    stream->capture->broken = true;
    return fault(cudaErrorStreamCaptureUnsupported, where, "the host waits for a stream that captures");
  }
  meet_default(stream);
  merge(all().host, stream->clock);
  return cudaSuccess;
}

Clock clock_of_device() {
  Clock clock;
  for (const Stream* stream : all().streams)
    if (stream->device == device) merge(clock, stream->clock);
  return clock;
}

cudaError_t synchronize_device(const char* where) {
  note_wait(where);
  if (!all().captures.empty()) {
    for (const auto& capture : all().captures) capture->broken = true;
    return fault(cudaErrorStreamCaptureUnsupported, where,
                 "the host waits for the device while a stream captures");
  }
  merge(all().host, clock_of_device());
  return cudaSuccess;
}

cudaError_t query(Event* event, const char* where) {
  if (event->capture != 0) return fault(cudaErrorCapturedEvent, where, "the event was recorded in a capture");
  if (const cudaError_t bad = forbidden_in_capture(where); bad != cudaSuccess) return bad;
  if (!unfinished_calls(event->clock).empty()) return fail(cudaErrorNotReady);
  merge(all().host, event->clock);  // other work is done at once, so the event is ready
  return cudaSuccess;
}
cudaError_t synchronize(Event* event, const char* where) {
  note_wait(where);
  return query(event, where);
}

bool host_has_waited_for(int stream, uint64_t work, const Stream* also_on) {
  const auto reaches = [&](const Clock& clock) {
    const auto it = clock.find(stream);
    return it != clock.end() && it->second >= work;
  };
  return reaches(all().host) || (also_on && reaches(also_on->clock));
}

cudaError_t forbidden_in_capture(const char* where) {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (const auto& capture : all().captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool global =
        capture->mode == cudaStreamCaptureModeGlobal && capture_mode == cudaStreamCaptureModeGlobal;
    if (!global && capture->thread != thread_id()) continue;
    capture->broken = true;
    return fault(cudaErrorStreamCaptureUnsupported, where, "a capture forbids this call");
  }
  return cudaSuccess;
}

cudaError_t begin_capture(Stream* stream, cudaStreamCaptureMode mode) {
  if (is_default(stream))
    return fault(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture",
                 "the default stream can't capture");
  if (stream->capture)
    return fault(cudaErrorIllegalState, "cudaStreamBeginCapture", "the stream captures already");
  auto capture = std::make_unique<Capture>();
  capture->id = all().next_capture++;
  capture->mode = mode;
  capture->thread = thread_id();
  capture->origin = stream;
  capture->graph = std::make_unique<Graph>();
  capture->members.insert(stream);
  stream->capture = capture.get();
  all().captures.insert(std::move(capture));
  return cudaSuccess;
}

cudaError_t end_capture(Stream* stream, std::unique_ptr<Graph>& graph) {
  Capture* capture = stream->capture;
  if (!capture) return fault(cudaErrorIllegalState, "cudaStreamEndCapture", "the stream does not capture");
  if (capture->origin != stream)
    return fault(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture",
                 "another stream began this capture");
  if (capture->thread != thread_id() && capture->mode != cudaStreamCaptureModeRelaxed)
    return fault(cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture",
                 "another thread began this capture");
  for (Stream* member : capture->members) member->capture = nullptr;
  const auto it = std::ranges::find(all().captures, capture, [](const auto& owned) { return owned.get(); });
  const std::unique_ptr<Capture> ended = std::move(all().captures.extract(it).value());
  if (ended->broken) return fail(cudaErrorStreamCaptureInvalidated);
  if (!ended->unjoined.empty())
    return fault(cudaErrorStreamCaptureUnjoined, "cudaStreamEndCapture",
                 std::to_string(ended->unjoined.size()) + " forked stream(s) have work that nothing joined");
  graph = std::move(ended->graph);
  return cudaSuccess;
}

void break_capture(Stream* stream) {
  if (stream->capture) stream->capture->broken = true;
}
}  // namespace fake_cuda
