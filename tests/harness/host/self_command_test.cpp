// Files beside the program, and for a while.
#include "harness/host/self_command.h"

#include <gtest/gtest.h>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "harness/host/temporary_folder.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

TEST(ModuleFile, IsWhereItWasBuiltOrBesideTheProgram) {
  const Scratch scratch;
  const fs::path built = scratch.path() / "module.so", program = fs::canonical("/proc/self/exe");
  write_file(built, "");
  EXPECT_EQ(host::module_file(built), built);
  // This program stands for a module that lies beside it.
  EXPECT_EQ(host::module_file(scratch.path() / program.filename()), program);
  // Of one that is nowhere the message names the place of the build.
  EXPECT_EQ(host::module_file(scratch.path() / "none.so"), scratch.path() / "none.so");
}

TEST(TemporaryFolder, GoesWithAllThatItHolds) {
  const Scratch scratch;
  fs::path path;
  {
    const host::TemporaryFolder folder(scratch.path(), "work"), other(scratch.path(), "work");
    path = folder.path();
    EXPECT_EQ(path.parent_path(), scratch.path());
    EXPECT_NE(path, other.path());
    fs::create_directory(path / "inner");
    write_file(path / "inner" / "file", "text");
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  EXPECT_THROW(host::TemporaryFolder(scratch.path() / "none"), Error);
}

}  // namespace
}  // namespace lra
