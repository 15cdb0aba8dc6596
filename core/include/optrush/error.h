#pragma once
#include <stdexcept>
#include <string>

namespace optrush {
/// An error for the user: the problem, its place and the remedy. what() joins the given parts:
/// "experiments/x.lua:12: unknown option 'rnk' of plugin 'adapter'\n  hint: did you mean 'rank'?"
class Error : public std::runtime_error {
 public:
  explicit Error(std::string what, std::string cure = {}, std::string where = {});

  const std::string& message() const { return message_; }
  const std::string& cure() const { return cure_; }
  const std::string& where() const { return where_; }
  /// The same error with a place, if it has none yet.
  Error at(const std::string& where) const;

 private:
  std::string message_, cure_, where_;
};

/// This machine lacks a requirement of the rung (a GPU, torch in Python). The rung is skipped, with this
/// reason and remedy.
class Skip : public Error {
 public:
  using Error::Error;
};

/// Wrong usage of the command line: exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};
}  // namespace optrush
