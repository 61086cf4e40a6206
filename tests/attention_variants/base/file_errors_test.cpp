// What is said of files that cannot be used, and of JSON that should not be.
#include "attention_variants/base/file_errors.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <ctime>

#include "attention_variants/base/append_file.h"
#include "attention_variants/base/json_fault.h"
#include "attention_variants/base/mapped_file.h"
#include "tests/support/scratch.h"
#include "tests/support/small_disk.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

TEST(FileErrors, OfTheLibraryAreOneLineWithPathReasonAndAdvice) {
  const std::string name(300, 'x');
  try {
    (void)fs::is_directory("/tmp/" + name);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_EQ(first_line(error),
              "cannot look at /tmp/" + name + ": File name too long; choose a shorter name");
  }
  try {
    const fs::directory_iterator none("/no/such");
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_EQ(first_line(error),
              "cannot open directory /no/such: No such file or directory; check the path");
  }
}

TEST(FileErrors, AreFitToBePrinted) {
  EXPECT_EQ(first_line(Error("a \x1b[31m red \xe2\x80\xae name\nmore")),
            "a \\x1b[31m red \\xe2\\x80\\xae name");
}

TEST(FileErrors, AFolderBehindALinkThatLeadsNowhereIsExplained) {
  const Scratch scratch;
  const fs::path link = scratch.path() / "link";
  EXPECT_EQ(make_folders(scratch.path() / "a/b"), "");
  fs::create_symlink("nowhere", link);
  for (const fs::path& path : {link, link / "below"})
    EXPECT_EQ(make_folders(path), link.string() +
                                      " is a symbolic link to nowhere, which does not exist; make "
                                      "that folder or remove the link");
}

TEST(FileLinks, AreFollowedOnlyWhereTheUserNamedThem) {
  const Scratch scratch;
  const fs::path target = scratch.path() / "target", link = scratch.path() / "link";
  write_file(target, "old");
  fs::create_symlink("target", link);
  write_file(link, "new", Links::replace);
  EXPECT_FALSE(fs::is_symlink(link));
  EXPECT_EQ(read_file(link), "new");
  EXPECT_EQ(read_file(target), "old");
  // One that leads to nothing yet.
  fs::remove(link);
  fs::create_symlink("later", link);
  write_file(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(scratch.path() / "later"), "new");
}

TEST(AppendFile, WritesAllOfATextOrNothing) {
  const SmallDisk disk(64);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs is not allowed here";
  const fs::path path = disk.path() / "f";
  AppendFile file(path);
  file.append("one\n");
  EXPECT_EQ(error_text([&] { file.append(std::string(1 << 20, 'x')); }),
            "cannot write " + path.string() + kFullDisk);
  EXPECT_EQ(read_file(path), "one\n");
  file.append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
}

TEST(MappedFile, IsNoPipeAndIsKnownByItsAddress) {
  const Scratch scratch;
  const fs::path pipe = scratch.path() / "pipe", path = scratch.path() / "f\x1b";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_text([&] { const MappedFile file(pipe); }),
            "cannot read " + pipe.string() + ": it is no regular file; put the file itself there");
  EXPECT_EQ(error_text([&] { read_file(pipe); }),
            "cannot read " + pipe.string() + ": it is a pipe, and no one writes to it");
  write_file(path, "text");
  const std::byte* address = nullptr;
  {
    const MappedFile file(path);
    address = file.bytes().data();
    ASSERT_NE(mapped_file_at(address + 3), nullptr);
    EXPECT_EQ(mapped_file_at(address + 3), (scratch.path() / "f\\x1b").string());
    EXPECT_EQ(mapped_file_at(&file), nullptr);
  }
  EXPECT_EQ(mapped_file_at(address), nullptr);
}

TEST(AtomicFile, BeyondTheLargestSizeIsAnError) {
  const Scratch scratch;
  const fs::path path = scratch.path() / "f";
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto before = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1 << 14, .rlim_max = old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text = error_text([&] { write_file(path, std::string(1 << 20, 'x')); });
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, before);
  EXPECT_EQ(text.find("cannot write " + path.string() + ": File too large; "), 0u) << text;
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(JsonFault, IsFoundInATimeThatIsLinear) {
  EXPECT_EQ(json_fault("[[[1]]]", 3).kind, JsonFault::Kind::none);
  EXPECT_EQ(json_fault("[[[1]]]", 2).kind, JsonFault::Kind::too_deep);
  EXPECT_EQ(json_fault(R"([{"a": 1}, {"a": 1, "b": 2, "a": 3}])", 9).key, "a");
  EXPECT_EQ(json_fault(R"({"a": @, "a": 3})", 9).kind, JsonFault::Kind::none) << "malformed first";
  std::string rows = "[{}";
  for (int i = 1; i < 300'000; ++i) rows += R"(,{"from": 1, "to": 2, "count": 3})";
  const std::clock_t begin = std::clock();
  EXPECT_EQ(parse_json(rows + "]", "text").size(), 300'000u);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 12);
}

}  // namespace
}  // namespace lra
