#pragma once
#include <functional>
#include <stdexcept>
#include <string>

#include "optrush/param.h"

namespace optrush {
/// Values of Param::init for initial values that are not drawn. The host does not call them.
struct NotDrawn {
  void operator()(Tensor&, at::Generator&) const {
    throw std::logic_error("this initial value is not drawn");
  }
};

/// Computed from the full initial value of another parameter, unless the model's checkpoint has a value.
struct FromParameter : NotDrawn {
  FromParameter(const Param& of, std::function<Tensor(const Tensor&)> by)
      : source(&of), make(std::move(by)) {}
  const Param* source;
  std::function<Tensor(const Tensor& value)> make;
};

/// Stored in a folder of Hugging Face or PEFT, which precedes the model's checkpoint.
struct FromFolder : NotDrawn {
  explicit FromFolder(std::string path) : folder(std::move(path)) {}
  std::string folder;
};
}  // namespace optrush
