// SPDX-License-Identifier: Apache-2.0
// Reading and cutting of the text.
#include "char_gpt/training/text.hpp"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "char_gpt/support/errors.hpp"

namespace char_gpt {
namespace {

constexpr std::size_t longest_text = std::size_t{256} << 20;  // far above what this model can learn from

void append(batch_of_text& batch, std::span<std::uint8_t const> text, std::size_t begin, int time) {
  auto const length = static_cast<std::size_t>(time);
  auto const tokens = text.subspan(begin, length), targets = text.subspan(begin + 1, length);
  batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
  batch.targets.insert(batch.targets.end(), targets.begin(), targets.end());
}

}  // namespace

std::vector<std::uint8_t> read_text(std::string const& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw usage_error{"cannot read '" + path + "': it is a directory"};
  std::unique_ptr<gzFile_s, int (*)(gzFile)> const file{gzopen(path.c_str(), "rb"), gzclose};  // reads plain files too
  if (!file) throw usage_error{"cannot read '" + path + "': " + std::strerror(errno)};
  std::vector<std::uint8_t> text, buffer(std::size_t{1} << 16);
  int count = 0;
  while ((count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.insert(text.end(), buffer.begin(), buffer.begin() + count);
    if (text.size() > longest_text) throw usage_error{"'" + path + "' holds more than 256 MiB of text"};
  }
  int error = Z_OK;
  char const* const reason = gzerror(file.get(), &error);  // a compressed file that ends early is reported only here
  if (error == Z_ERRNO) throw usage_error{"cannot read '" + path + "': " + std::strerror(errno)};
  if (error != Z_OK) throw usage_error{"cannot read '" + path + "': damaged gzip data (" + reason + ")"};
  return text;
}

split_text split(std::span<std::uint8_t const> text, int context) {
  std::size_t const train = text.size() - text.size() / 10, needed = static_cast<std::size_t>(context) + 1;
  if (train < needed || text.size() - train < needed)
    throw usage_error{"the text is too short: a tenth of it must hold " + std::to_string(needed) +
                      " bytes, and all of it has " + std::to_string(text.size())};
  return {text.first(train), text.subspan(train)};
}

batch_of_text random_batches::next() {
  batch_of_text batch;
  for (int i = 0; i < sizes_.batch; ++i)
    append(batch, text_, generator_() % (text_.size() - static_cast<std::size_t>(sizes_.time)), sizes_.time);
  return batch;
}

std::vector<batch_of_text> even_batches(std::span<std::uint8_t const> text, sizes s, int count) {
  std::vector<batch_of_text> batches(static_cast<std::size_t>(count));
  std::size_t const last = text.size() - static_cast<std::size_t>(s.time) - 1;
  std::size_t const sequences = static_cast<std::size_t>(count) * static_cast<std::size_t>(s.batch);
  for (std::size_t i = 0; i < sequences; ++i)
    append(batches[i / static_cast<std::size_t>(s.batch)], text, sequences == 1 ? 0 : last * i / (sequences - 1),
           s.time);
  return batches;
}

}  // namespace char_gpt
