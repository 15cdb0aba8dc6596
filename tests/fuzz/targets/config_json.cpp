// config.json of a Hugging Face folder.
#include "checkpoint/hugging_face_model.h"
#include "checkpoint/written_config.h"
#include "spec/spec_json.h"
#include "target.h"

FUZZ_TARGET(config_json) {
  using namespace optrush;
  static const fuzz::Files files;
  files.write("config.json", fuzz::text_of(data, size));
  fuzz::feed([&] {
    const HuggingFaceModel model = read_hugging_face_model(files.path());
    const LlamaSpec& spec = model.llama;
    fuzz::hold(spec.n_heads > 0 && spec.n_heads % spec.n_kv_heads == 0, "heads are shared evenly");
    const Json json = to_json(spec);
    static const fuzz::Files written;
    written.write("config.json", config_of_checkpoint(files.path()).dump());
    const HuggingFaceModel again = read_hugging_face_model(written.path());
    fuzz::hold(to_json(again.llama) == json && again.rotary.longest == model.rotary.longest,
               "what is written is the same model");
    try {
      fuzz::hold(to_json(llama_from_json(json, "again")) == json, "the model is read again as the same");
    } catch (const Error& e) {
      fuzz::fail(std::string("the model is refused by a spec: ") + e.what());
    }
  });
  return 0;
}
