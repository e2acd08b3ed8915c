// SPDX-License-Identifier: Apache-2.0
// The files of the training example: the text that is read, split and cut into batches, and reports that are written whole.
#include <doctest/doctest.h>

#include <zlib.h>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "char_gpt/report/files.hpp"
#include "char_gpt/support/errors.hpp"
#include "char_gpt/training/text.hpp"
#include "char_gpt_program.hpp"

using namespace char_gpt;

namespace {

TEST_CASE("texts are read plain and compressed, and bad ones are refused") {
  scratch_folder const folder;
  std::string const words = "in the beginning was the word ";
  save(folder / "plain", words);
  gzFile const file = gzopen((folder / "packed").c_str(), "wb");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += words + std::to_string(i * i);
  REQUIRE(gzwrite(file, many.data(), static_cast<unsigned>(many.size())) == static_cast<int>(many.size()));
  REQUIRE(gzclose(file) == Z_OK);
  auto const text_of = [](std::vector<std::uint8_t> const& bytes) { return std::string{bytes.begin(), bytes.end()}; };
  CHECK(text_of(read_text(folder / "plain")) == words);
  CHECK(text_of(read_text(folder / "packed")) == many);

  std::string packed = load(folder / "packed");
  save(folder / "cut", packed.substr(0, packed.size() / 2));
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  save(folder / "damaged", packed);
  CHECK_THROWS_AS(read_text(folder / "cut"), usage_error);
  CHECK_THROWS_AS(read_text(folder / "damaged"), usage_error);
  CHECK_THROWS_AS(read_text(folder / "absent"), usage_error);
  CHECK_THROWS_AS(read_text(folder.path.string()), usage_error);
}

TEST_CASE("a text is split 9 to 1, and one that is too short is refused") {
  std::vector<std::uint8_t> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  auto const parts = split(bytes, 9);
  CHECK(parts.train.size() == 90);
  CHECK(parts.validation.size() == 10);
  CHECK(parts.validation.front() == 90);
  CHECK_THROWS_AS(split(bytes, 10), usage_error);
  CHECK_THROWS_AS(split({}, 1), usage_error);
}

TEST_CASE("batches stay within their text, targets follow tokens, one seed gives one sequence") {
  std::vector<std::uint8_t> bytes(40);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(100 + i);
  sizes const s{3, 8};
  random_batches a{bytes, s, 4}, b{bytes, s, 4};
  auto all = even_batches(bytes, s, 2);
  CHECK(all.front().tokens.front() == 100);
  CHECK(all.back().targets.back() == 139);
  for (int i = 0; i < 50; ++i) {
    all.push_back(a.next());
    CHECK(all.back().tokens == b.next().tokens);
  }
  for (auto const& batch : all) {
    REQUIRE(batch.tokens.size() == 24);
    REQUIRE(batch.targets.size() == 24);
    for (std::size_t i = 0; i < 24; ++i) {
      CHECK(batch.targets[i] == batch.tokens[i] + 1);
      CHECK(batch.tokens[i] >= 100);
      CHECK(batch.targets[i] < 140);
    }
  }
}

TEST_CASE("a file that cannot be written whole is not written") {
  scratch_folder const folder;
  CHECK_THROWS_AS(write_file(folder / "absent/file", "contents"), std::runtime_error);
  write_file(folder / "file", "old");
  write_file(folder / "file", "new");
  CHECK(load(folder / "file") == "new");
  CHECK(std::distance(fs::directory_iterator{folder.path}, {}) == 1);
}

}  // namespace
