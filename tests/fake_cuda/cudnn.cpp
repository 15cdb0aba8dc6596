// cuDNN: a handle, and the graph interface with one engine that accepts every graph. LibTorch therefore
// chooses cuDNN's attention as usual. The library does not know whether a real cuDNN has a kernel for the
// graph.
#include <cudnn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api.h"
#include "device_memory.h"
#include "work.h"

using namespace fake_cuda;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {
struct Attribute {
  int64_t count = 0;
  std::vector<char> bytes;
};
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<int, Attribute> attributes;
};
Descriptor* descriptor_of(cudnnBackendDescriptor_t d) { return reinterpret_cast<Descriptor*>(d); }

size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return 16;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    default:
      return 4;
  }
}
Descriptor* pointer_at(const Attribute& attribute, int64_t index) {
  Descriptor* pointer = nullptr;
  std::memcpy(&pointer, attribute.bytes.data() + 8 * index, sizeof pointer);
  return pointer;
}
Descriptor* descriptor_in(Descriptor* d, int attribute) {
  if (!d) return nullptr;
  const auto it = d->attributes.find(attribute);
  return it == d->attributes.end() ? nullptr : pointer_at(it->second, 0);
}
/// The name of a graph: "cudnn graph of" and the types of its operations.
std::string text_of(Descriptor* plan) {
  Descriptor* config = descriptor_in(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  Descriptor* graph =
      descriptor_in(descriptor_in(config, CUDNN_ATTR_ENGINECFG_ENGINE), CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  if (!graph) return "cudnn graph";
  const Attribute& operations = graph->attributes[CUDNN_ATTR_OPERATIONGRAPH_OPS];
  std::string text = "cudnn graph of";
  for (int64_t i = 0; i < operations.count; ++i)
    text += " " + std::to_string(pointer_at(operations, i)->type);
  return text;
}
bool is_number_without_value(int attribute) {
  return attribute == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE ||
         attribute == CUDNN_ATTR_ENGINE_GLOBAL_INDEX || attribute == CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE ||
         attribute == CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED;
}
/// The answer of a heuristic: a configuration of the only engine for its graph.
void configure(Descriptor& heuristic, Descriptor& config) {
  auto engine = std::make_unique<Descriptor>();
  engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
  engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
      heuristic.attributes[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH];
  Attribute pointer{1, std::vector<char>(8)};
  const Descriptor* kept = engine.release();  // never freed, like plans
  std::memcpy(pointer.bytes.data(), &kept, 8);
  config.attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = pointer;
}
}  // namespace

FAKE_CUDA_API size_t cudnnGetVersion() { return CUDNN_VERSION; }
FAKE_CUDA_API size_t cudnnGetCudartVersion() { return CUDART_VERSION; }
FAKE_CUDA_API cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUDNN_MAJOR : type == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API cudnnStatus_t cudnnCreate(cudnnHandle_t* h) {
  *h = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API cudnnStatus_t cudnnDestroy(cudnnHandle_t h) {
  delete h;
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream) {
  h->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API cudnnStatus_t cudnnGetStream(cudnnHandle_t h, cudaStream_t* stream) {
  *stream = h->stream;
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API const char* cudnnGetErrorString(cudnnStatus_t) { return "fake_cuda: cuDNN failed"; }
FAKE_CUDA_API void cudnnGetLastErrorString(char* text, size_t room) {
  std::snprintf(text, room, "fake_cuda: cuDNN failed");
}

FAKE_CUDA_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                         cudnnBackendDescriptor_t* d) {
  auto made = std::make_unique<Descriptor>();
  made->type = type;
  *d = reinterpret_cast<cudnnBackendDescriptor_t>(made.release());
  return CUDNN_STATUS_SUCCESS;
}
// Plans refer to their descriptors, so none is freed.
FAKE_CUDA_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
FAKE_CUDA_API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
FAKE_CUDA_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type, int64_t count,
                                                     const void* values) {
  const auto* begin = static_cast<const char*>(values);
  descriptor_of(d)->attributes[name] = {count, {begin, begin + count * static_cast<int64_t>(bytes_of(type))}};
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const d,
                                                     cudnnBackendAttributeName_t name,
                                                     cudnnBackendAttributeType_t type, int64_t wanted,
                                                     int64_t* count, void* out) {
  Descriptor& descriptor = *descriptor_of(d);
  if (descriptor.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    if (count) *count = 1;
    if (wanted > 0 && out) {
      Descriptor* config = nullptr;
      std::memcpy(&config, out, sizeof config);
      configure(descriptor, *config);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  const auto it = descriptor.attributes.find(name);
  if (it == descriptor.attributes.end()) {
    if (count) *count = is_number_without_value(name) ? 1 : 0;
    if (out && is_number_without_value(name)) std::memset(out, 0, bytes_of(type));
    return CUDNN_STATUS_SUCCESS;
  }
  const Attribute& attribute = it->second;
  if (count) *count = attribute.count;
  if (!out || wanted <= 0) return CUDNN_STATUS_SUCCESS;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::memcpy(out, attribute.bytes.data(),
                std::min(attribute.bytes.size(), static_cast<size_t>(wanted) * bytes_of(type)));
    return CUDNN_STATUS_SUCCESS;
  }
  for (int64_t i = 0; i < std::min(wanted, attribute.count);
       ++i) {  // into descriptors that the caller has made
    auto* const slot = static_cast<char*>(out) + 8 * i;
    Descriptor *from = pointer_at(attribute, i), *to = nullptr;
    std::memcpy(&to, slot, sizeof to);
    if (to)
      *to = *from;
    else
      std::memcpy(slot, &from, sizeof from);
  }
  return CUDNN_STATUS_SUCCESS;
}
FAKE_CUDA_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                                cudnnBackendDescriptor_t pack) {
  const Attribute& pointers = descriptor_of(pack)->attributes[CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS];
  std::vector<const void*> used;
  for (int64_t i = 0; i < pointers.count; ++i)
    if (const void* p = pointer_at(pointers, i)) used.push_back(p);
  // Scalars of a graph (its scale, the seed of a dropout) lie in the host's memory by design.
  std::erase_if(used, [](const void* p) { return !is_pinned(p) && device_of(p) < 0; });
  return library_call(text_of(descriptor_of(plan)), h->stream, used) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}
