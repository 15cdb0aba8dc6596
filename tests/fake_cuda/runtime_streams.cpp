// CUDA runtime: streams, events, captures, graphs.
#include <cstring>

#include "api.h"
#include "peers.h"
#include "work.h"

using namespace fake_cuda;

namespace {
cudaEvent_t handle_of(Event* event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaError_t no_event(const char* where) {
  return fault(cudaErrorInvalidResourceHandle, where, "no such event");
}
}  // namespace

FAKE_CUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const Lock lock(mutex());
  stream_of(nullptr);  // the default stream has the first number
  *stream = reinterpret_cast<cudaStream_t>(new_stream(present_device(), flags, priority));
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
FAKE_CUDA_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
FAKE_CUDA_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FAKE_CUDA_STREAM("cudaStreamDestroy");
  destroy_stream(s);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  FAKE_CUDA_STREAM("cudaStreamQuery");
  if (!s->capture) return unfinished_calls(s->clock).empty() ? cudaSuccess : fail(cudaErrorNotReady);
  break_capture(s);
  return fault(cudaErrorStreamCaptureUnsupported, "cudaStreamQuery", "the stream captures");
}
FAKE_CUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  await_peers(stream);
  FAKE_CUDA_STREAM("cudaStreamSynchronize");
  return synchronize(s, "cudaStreamSynchronize");
}
FAKE_CUDA_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  FAKE_CUDA_STREAM("cudaStreamGetPriority");
  *priority = s->priority;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  FAKE_CUDA_STREAM("cudaStreamGetFlags");
  *flags = s->flags;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  FAKE_CUDA_STREAM("cudaStreamGetDevice");
  *device = s->device;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
  FAKE_CUDA_STREAM("cudaStreamWaitEvent");
  Event* event = event_of(handle);
  return event ? wait(s, event) : no_event("cudaStreamWaitEvent");
}
FAKE_CUDA_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  {
    FAKE_CUDA_STREAM("cudaLaunchHostFunc");
    if (s->capture) return library_call("host function", stream, {});
  }
  function(data);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                                void* data, unsigned) {
  function(stream, cudaSuccess, data);
  return cudaSuccess;
}

FAKE_CUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Lock lock(mutex());
  *event = handle_of(new_event(flags));
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
FAKE_CUDA_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(mutex());
  return destroy_event(reinterpret_cast<Event*>(event)) ? cudaSuccess : no_event("cudaEventDestroy");
}
FAKE_CUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned) {
  FAKE_CUDA_STREAM("cudaEventRecord");
  Event* event = event_of(handle);
  if (!event) return no_event("cudaEventRecord");
  if (!(event->flags & cudaEventDisableTiming)) trace("time");
  return record(event, s);
}
FAKE_CUDA_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
FAKE_CUDA_API cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const Lock lock(mutex());
  Event* event = event_of(handle);
  return event ? query(event, "cudaEventQuery") : no_event("cudaEventQuery");
}
FAKE_CUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  await([handle] {
    const Event* event = event_of(handle);
    return !event || unfinished_calls(event->clock).empty();
  });
  const Lock lock(mutex());
  Event* event = event_of(handle);
  return event ? synchronize(event, "cudaEventSynchronize") : no_event("cudaEventSynchronize");
}
FAKE_CUDA_API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const Lock lock(mutex());
  const Event *from = event_of(begin), *to = event_of(end);
  if (!from || !to || !from->recorded || !to->recorded ||
      ((from->flags | to->flags) & cudaEventDisableTiming))
    return fault(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime", "an event without a time");
  *ms = static_cast<float>(to->ms - from->ms);
  return cudaSuccess;
}

FAKE_CUDA_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  FAKE_CUDA_STREAM("cudaStreamBeginCapture");
  return begin_capture(s, mode);
}
FAKE_CUDA_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  FAKE_CUDA_STREAM("cudaStreamEndCapture");
  std::unique_ptr<Graph> captured;
  const cudaError_t error = end_capture(s, captured);
  *graph = captured ? reinterpret_cast<cudaGraph_t>(keep(std::move(captured))) : nullptr;
  return error;
}
namespace {
cudaStreamCaptureStatus status_of(const Stream* s) {
  if (!s->capture) return cudaStreamCaptureStatusNone;
  return s->capture->broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}
}  // namespace
FAKE_CUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  FAKE_CUDA_STREAM("cudaStreamIsCapturing");
  *status = status_of(s);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, cudaGraph_t* graph,
                                                   const cudaGraphNode_t** nodes,
                                                   const cudaGraphEdgeData** edges, size_t* count) {
  FAKE_CUDA_STREAM("cudaStreamGetCaptureInfo");
  *status = status_of(s);
  if (!s->capture) return cudaSuccess;
  if (id) *id = s->capture->id;
  if (graph) *graph = reinterpret_cast<cudaGraph_t>(s->capture->graph.get());
  if (nodes) *nodes = nullptr;
  if (edges) *edges = nullptr;
  if (count) *count = 0;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = exchange_capture_mode(*mode);
  return cudaSuccess;
}

FAKE_CUDA_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t handle,
                                                        unsigned long long) {
  const Lock lock(mutex());
  const Graph* graph = graph_of(handle);
  if (!graph) return fault(cudaErrorInvalidValue, "cudaGraphInstantiate", "no such graph");
  *out = reinterpret_cast<cudaGraphExec_t>(keep(std::make_unique<Graph>(*graph)));
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                               unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(out, graph, flags);
}
FAKE_CUDA_API cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
FAKE_CUDA_API cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  FAKE_CUDA_STREAM("cudaGraphLaunch");
  const Graph* graph = graph_of(reinterpret_cast<cudaGraph_t>(handle));
  if (!graph) return fault(cudaErrorInvalidValue, "cudaGraphLaunch", "no such graph");
  if (const cudaError_t bad = begin_work(s, "cudaGraphLaunch"); bad != cudaSuccess) return bad;
  replay(*graph, *s);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  const Lock lock(mutex());
  return destroy_graph(reinterpret_cast<Graph*>(handle))
             ? cudaSuccess
             : fault(cudaErrorInvalidValue, "cudaGraphDestroy", "no such graph");
}
FAKE_CUDA_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(handle));
}
FAKE_CUDA_API cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  const Lock lock(mutex());
  Graph* graph = graph_of(handle);
  if (!graph) return fault(cudaErrorInvalidValue, "cudaGraphGetNodes", "no such graph");
  if (nodes)
    for (size_t i = 0; i < *count && i < graph->work.size(); ++i)
      nodes[i] = reinterpret_cast<cudaGraphNode_t>(&graph->work[i]);
  *count = graph->work.size();
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*,
                                                       size_t* count) {
  *count = 0;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) { return cudaSuccess; }
