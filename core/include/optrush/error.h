#pragma once
#include <stdexcept>
#include <string>

namespace optrush {
/// An error for the user: what is wrong, where, and the cure. what() joins the parts that are given:
/// "experiments/x.lua:12: unknown option 'rnk' of plugin 'adapter'\n  hint: did you mean 'rank'?"
class Error : public std::runtime_error {
 public:
  explicit Error(std::string what, std::string cure = {}, std::string where = {});

  const std::string& message() const { return message_; }
  const std::string& cure() const { return cure_; }
  const std::string& where() const { return where_; }
  /// The same error with a place put in front of it, where it has none yet.
  Error at(const std::string& where) const;

 private:
  std::string message_, cure_, where_;
};

/// This machine lacks what the rung needs (a GPU, Python's torch): the rung is skipped, with the cure.
class Skip : public Error {
 public:
  using Error::Error;
};

/// Bad usage of the command line: exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};
}  // namespace optrush
