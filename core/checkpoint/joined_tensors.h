#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/architectures.h"

namespace optrush {
struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

/// A parameter as a part of a tensor of a file: of the expert's matrix or vector, transposed if the file has
/// (in, out), the rows `first`, `first` + `step`, ...
struct PlaceInFile {
  NamedShape tensor;    ///< the whole tensor
  int64_t expert = -1;  ///< index along the first axis; -1: the tensor has no axis of experts
  int64_t first = 0, step = 1, rows = 0;
  bool transposed = false;
};

/// The parameters that a class of transformers stores joined (Storage::joined), or below another layer
/// (ParameterNames::nemotron_h).
class JoinedTensors {
 public:
  /// `model`: all parameters of the model.
  JoinedTensors(const std::vector<NamedShape>& model, const Storage&);
  JoinedTensors() = default;

  /// Null if the parameter is a tensor of the file.
  const PlaceInFile* find(const std::string& parameter) const;
  /// The tensors of a file that hold these parameters, each once.
  std::vector<NamedShape> in_file(const std::vector<NamedShape>& parameters) const;

 private:
  std::map<std::string, PlaceInFile> places_;  ///< by parameter
};
}  // namespace optrush
