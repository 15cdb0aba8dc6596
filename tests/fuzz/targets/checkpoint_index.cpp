// model.safetensors.index.json beside two files of a checkpoint.
#include <ATen/Functions.h>

#include "io/safetensors.h"
#include "model/hugging_face.h"
#include "target.h"

namespace {
struct Folder : optrush::fuzz::Files {
  Folder() {
    optrush::write_safetensors(*this / "a.safetensors", {{"x", at::ones({2})}});
    optrush::write_safetensors(*this / "b.safetensors", {{"y", at::ones({2})}});
  }
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optrush;
  static const Folder folder;
  folder.write("model.safetensors.index.json", fuzz::text_of(data, size));
  fuzz::feed([&] {
    const Checkpoint checkpoint{folder.path()};
    fuzz::hold(!checkpoint.contains("z"), "no file has that tensor");
  });
  return 0;
}
