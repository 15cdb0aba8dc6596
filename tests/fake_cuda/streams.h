// Streams, events, captures and graphs. Work is done at once. The library tracks the order that the program
// requests.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace fake_cuda {
struct Kernel;
struct Stream;

/// The number of works that are done before a point, by the number of the stream.
using Clock = std::map<int, uint64_t>;
void merge(Clock& into, const Clock& other);

struct Work {  ///< a launch, a library's call, a copy or a memset
  Kernel* kernel = nullptr;
  std::string name;  ///< name of work without a kernel
  dim3 grid, block;
  size_t shared = 0;
};
struct Graph {
  std::vector<Work> work;
};

struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  uint64_t thread = 0;
  bool broken = false;
  Stream* origin = nullptr;
  std::unique_ptr<Graph> graph;
  std::set<Stream*> members, unjoined;  ///< unjoined: forks that no event has joined
};

struct Stream {
  int number = 0, device = 0;
  unsigned flags = 0;
  int priority = 0;
  Clock clock;
  Capture* capture = nullptr;
};

struct Event {
  unsigned flags = 0;
  bool recorded = false;
  double ms = 0;
  Clock clock;
  Stream* stream = nullptr;
  int stream_number = -1;  ///< also of a stream that was destroyed
  uint64_t capture = 0;    ///< id of the capture in which it was recorded
};

Stream* new_stream(int device, unsigned flags, int priority);
bool destroy_stream(Stream* stream);
/// Null if the stream is not live. Handles 0, 1 and 2 are the default stream of the current device.
Stream* stream_of(cudaStream_t handle);
Event* new_event(unsigned flags);
bool destroy_event(Event* event);
Event* event_of(cudaEvent_t handle);  ///< null: not a live event
Graph* keep(std::unique_ptr<Graph> graph);
Graph* graph_of(cudaGraph_t handle);  ///< null: not a live graph
bool destroy_graph(Graph* graph);

int present_device();
cudaError_t set_device(int device);
cudaStreamCaptureMode exchange_capture_mode(cudaStreamCaptureMode mode);

/// Called before any work on a stream. Checks captures, devices and the default stream's rules. Advances the
/// stream's clock on success.
cudaError_t begin_work(Stream* stream, const char* where);
cudaError_t record(Event* event, Stream* stream);
cudaError_t wait(Stream* stream, Event* event);
/// Waits of the host. Each is counted.
cudaError_t synchronize(Stream* stream, const char* where);
cudaError_t synchronize(Event* event, const char* where);
cudaError_t synchronize_device(const char* where);
/// All work of the current device except captures.
Clock clock_of_device();
cudaError_t query(Event* event, const char* where);
/// Fails if a capture forbids the call, such as an allocation or a wait, to this thread or to all.
cudaError_t forbidden_in_capture(const char* where);
bool host_has_waited_for(int stream, uint64_t work, const Stream* also_on);

cudaError_t begin_capture(Stream* stream, cudaStreamCaptureMode mode);
cudaError_t end_capture(Stream* stream, std::unique_ptr<Graph>& graph);
void break_capture(Stream* stream);
}  // namespace fake_cuda
