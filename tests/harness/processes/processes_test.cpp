// What processes agree on, with threads in their place; and how work is shared out.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <csignal>
#include <new>
#include <thread>

#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/processes/data_parallel.h"
#include "harness/processes/processes.h"
#include "lra/model/model.h"
#include "tests/lra/model/toy_model.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

struct Meeting {
  explicit Meeting(int64_t size) : barrier(size), values(static_cast<size_t>(size)) {}
  std::barrier<> barrier;
  std::vector<torch::Tensor> values;
};

// One of several threads.
class ThreadProcess final : public Processes {
 public:
  ThreadProcess(int64_t rank, int64_t size, Meeting& meeting)
      : Processes({.by = host::Launcher::mpirun, .rank = rank, .size = size}, "threads"),
        meeting_(meeting) {}

  void sum(const torch::Tensor& values) override {
    exchange(values, [&] { return torch::stack(meeting_.values).sum(0); });
  }
  void broadcast(const torch::Tensor& values, int64_t from) override {
    exchange(values, [&] { return meeting_.values[static_cast<size_t>(from)].clone(); });
  }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }

 private:
  template <class Result>
  void exchange(const torch::Tensor& values, const Result& result) {
    meeting_.values[static_cast<size_t>(rank())] = values;
    meeting_.barrier.arrive_and_wait();
    const torch::Tensor after = result();
    meeting_.barrier.arrive_and_wait();
    values.copy_(after);
  }

  Meeting& meeting_;
};

// Calls `work` in `size` threads, each with its process.
void with_processes(int64_t size, const std::function<void(Processes&)>& work) {
  Meeting meeting(size);
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadProcess process(rank, size, meeting);
      work(process);
    });
  }
}

// What run_collective() throws in each of three processes where some of them throw.
template <class Expected>
std::vector<std::string> messages(const std::function<void(int64_t rank)>& work) {
  std::vector<std::string> found(3);
  with_processes(3, [&](Processes& processes) {
    std::string& message = found[static_cast<size_t>(processes.rank())];
    try {
      processes.run_collective([&] { work(processes.rank()); });
      message = "nothing thrown";
    } catch (const Expected& error) {
      message = error.what();
    } catch (const std::exception& error) {
      message = std::string("another kind: ") + error.what();
    }
    if (processes.agreed() != (message != "nothing thrown")) message = "not as agreed";
    // They still understand each other.
    if (processes.gather(processes.rank()) != std::vector<int64_t>{0, 1, 2}) message = "astray";
  });
  return found;
}

std::vector<std::string> three(const std::string& message) { return {message, message, message}; }

TEST(Together, ThrowsInAllWhatOneThrows) {
  EXPECT_EQ(messages<Error>([](int64_t) {}), three("nothing thrown"));
  EXPECT_EQ(messages<Error>([](int64_t rank) {
              if (rank == 1) throw Error("the disk is full");
            }),
            three("process 1 of 3: the disk is full"));
  EXPECT_EQ(messages<UsageError>([](int64_t) { throw UsageError("no such task"); }),
            three("no such task"))
      << "everybody's error is nobody's in particular";
  EXPECT_EQ(messages<Unsupported>([](int64_t rank) {
              if (rank > 0) throw Unsupported("too long");
            }),
            three("process 1 of 3: too long"));
  EXPECT_EQ(messages<host::Interrupted>([](int64_t rank) {
              if (rank == 2) throw host::Interrupted("");
            }),
            three("process 2 of 3: "));
  // One was asked to stop: all end as it does.
  std::atomic<int> asked = 0;
  with_processes(3, [&](Processes& processes) {
    try {
      processes.run_collective(
          [&] { throw host::Interrupted("stopped", processes.rank() == 1 ? SIGTERM : 0); });
    } catch (const host::Interrupted& stopped) {
      EXPECT_STREQ(stopped.what(), "stopped");
      EXPECT_EQ(stopped.signal(), SIGTERM);
      EXPECT_EQ(host::exit_status(stopped), 128 + SIGTERM);
      ++asked;
    }
  });
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(host::exit_status(host::Interrupted("by no signal", 0)), 128 + SIGINT);
  const auto memory = messages<std::bad_alloc>([](int64_t rank) {
    if (rank == 2) throw std::bad_alloc();
  });
  EXPECT_EQ(memory, three("process 2 of 3: " + first_line(std::bad_alloc())));
}

TEST(Together, AloneItIsACall) {
  int calls = 0;
  run_collective(nullptr, [&] { ++calls; });
  on_rank_zero(nullptr, [&] { ++calls; });
  EXPECT_EQ(calls, 2);
  EXPECT_THROW(run_collective(nullptr, [] { throw Unsupported("as it is"); }), Unsupported);
}

TEST(Together, TheFirstWorksForAll) {
  std::atomic<int> calls = 0, failures = 0;
  with_processes(3, [&](Processes& processes) {
    on_rank_zero(&processes, [&] { ++calls; });
    const std::string said =
        error_text([&] { on_rank_zero(&processes, [&] { throw Error("cannot write"); }); });
    failures += said == "process 0 of 3: cannot write" ? 1 : 0;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(failures, 3);
}

TEST(CheckSame, NamesTheProcessThatDiffers) {
  std::atomic<int> right = 0;
  with_processes(3, [&](Processes& processes) {
    check_same(processes, "the same", "the run at step 8");
    const std::string said = error_text(
        [&] { check_same(processes, processes.rank() == 2 ? "b" : "a", "the run at step 8"); });
    right += said.starts_with("the run at step 8 is not the same in processes 0 and 2; ") ? 1 : 0;
  });
  EXPECT_EQ(right, 3);
}

TEST(SumGradients, IsTheSumAndKeepsWhatIsNotDefined) {
  std::atomic<int> right = 0;
  with_processes(2, [&](Processes& processes) {
    const auto mine = static_cast<double>(processes.rank() + 1);
    std::vector<torch::Tensor> parameters;
    for (int i = 0; i < 3; ++i) parameters.push_back(torch::zeros({2, i + 1}).requires_grad_());
    parameters[0].mutable_grad() = torch::full({2, 1}, mine);
    parameters[2].mutable_grad() = torch::full({2, 3}, 10 * mine);
    const torch::Tensor flat = flat_buffer(parameters);
    sum_gradients(processes, parameters, flat);
    right += torch::equal(parameters[0].grad(), torch::full({2, 1}, 3.0)) ? 1 : 0;
    right += parameters[1].grad().defined() ? 0 : 1;
    right += torch::equal(parameters[2].grad(), torch::full({2, 3}, 30.0)) ? 1 : 0;
  });
  EXPECT_EQ(right, 6);
}

// As of parameters that only some samples need.
TEST(SumGradients, IsTheSameWhereOnlyOthersHaveOne) {
  std::atomic<int> right = 0;
  with_processes(3, [&](Processes& processes) {
    std::vector<torch::Tensor> parameters;
    for (int i = 0; i < 2; ++i) parameters.push_back(torch::zeros({2, 3}).requires_grad_());
    if (processes.rank() > 0) parameters[0].mutable_grad() = torch::full({2, 3}, 2.0);
    const torch::Tensor flat = flat_buffer(parameters);
    sum_gradients(processes, parameters, flat);
    const torch::Tensor& sum = parameters[0].grad();
    right += sum.defined() && torch::equal(sum, torch::full({2, 3}, 4.0)) ? 1 : 0;
    flat.zero_();  // the next step's
    right += sum.defined() && sum.sum().item<double>() == 24 ? 1 : 0;
    right += parameters[1].grad().defined() ? 0 : 1;
  });
  EXPECT_EQ(right, 9);
}

TEST(PartCount, IsTheSameForAllProcesses) {
  EXPECT_EQ(micro_batch_count(32, 0, 4), 1);
  EXPECT_EQ(micro_batch_count(32, 4, 4), 2);
  EXPECT_EQ(micro_batch_count(10, 2, 4), 2) << "shares of 3 and 2";
  EXPECT_EQ(micro_batch_count(8, 1, 4), 2);
  EXPECT_EQ(micro_batch_count(4, 0, 4), 1);
}

TEST(PartCount, RefusesAShareWithoutSamples) {
  const auto message = [](int64_t batch, int64_t micro_batch, int64_t processes) {
    return error_text<UsageError>([&] { micro_batch_count(batch, micro_batch, processes); });
  };
  EXPECT_EQ(message(2, 0, 3),
            "training.batch (2) is less than the 3 processes, and each needs a sample of every "
            "batch; start at most 2");
  EXPECT_EQ(message(10, 1, 4),
            "with training.micro_batch=1 processes with 3 samples of a batch would take 3 parts, "
            "and those with 2 cannot; take a batch that 4 processes share evenly, or larger "
            "parts");
}

TEST(WithoutEngine, SaysWhatToDo) {
  EXPECT_STREQ(without_engine({.by = host::Launcher::mpirun, .rank = 0, .size = 4}, "MPI").what(),
               "mpirun started 4 processes, but this lra was built without MPI; see "
               "docs/parallel.md for what to install, then build it again, or start it alone");
}

// Shares and parts of them, of one and of two inputs a sample, with dropout: logits are those of
// the whole batch, and so are gradients and the state of the generator afterwards.
TEST(ForEachPart, TogetherTheyAreTheWholeBatch) {
  for (const int64_t inputs : {1, 2}) {
    torch::manual_seed(3);
    Model model(toy_task(inputs), toy_config("standard[dropout=0.2]", /*dropout=*/0.3));
    model.train();
    const torch::Tensor tokens = torch::randint(1, 7, {10, inputs, 16}),
                        mask = torch::ones({10, inputs, 16}, torch::kBool);
    const auto state = [] { return at::detail::getDefaultCPUGenerator().get_state(); };
    const auto gradients = [&] {
      std::vector<torch::Tensor> all;
      for (const torch::Tensor& parameter : model.parameters()) {
        all.push_back(parameter.grad().clone());
        parameter.mutable_grad().reset();
      }
      return all;
    };
    torch::manual_seed(4);
    const torch::Tensor whole = model.forward(tokens, mask);
    whole.square().sum().backward();
    const torch::Tensor after = state();
    const auto whole_gradients = gradients();
    for (const auto& [shares, parts] : {std::pair{1, 1}, std::pair{1, 3}, std::pair{3, 2}}) {
      std::vector<torch::Tensor> logits;
      for (int64_t i = 0; i < shares; ++i) {
        torch::manual_seed(4);
        const Range share = share_of(10, i, shares);
        for_each_micro_batch(share, parts, /*seed=*/0, /*step=*/7, [&](Range part) {
          const auto rows = [&](const torch::Tensor& t) {
            return t.slice(0, share.begin + part.begin, share.begin + part.end);
          };
          logits.push_back(model.forward(rows(tokens), rows(mask)));
          logits.back().square().sum().backward();
        });
        EXPECT_TRUE(torch::equal(state(), after)) << shares << " shares";
      }
      EXPECT_TRUE(torch::allclose(torch::cat(logits), whole, 1e-5, 1e-6)) << shares << " shares";
      const auto sums = gradients();
      for (size_t i = 0; i < sums.size(); ++i) {
        // Roundings of ten float32 terms; a dropout elsewhere changes some gradients wholly.
        const double scale = whole_gradients[i].abs().max().item<double>();
        EXPECT_LT((sums[i] - whole_gradients[i]).abs().max().item<double>(), 1e-5 * scale + 1e-7)
            << i;
      }
    }
  }
}

// LibTorch's own numbers are a stream of each part, not the same ones in every process.
TEST(ForEachPart, GivesEachPartAStreamOfItsOwn) {
  std::vector<torch::Tensor> draws;
  const auto draw = [&](Range share, int64_t step) {
    torch::manual_seed(4);
    for_each_micro_batch(share, 2, /*seed=*/1, step,
                         [&](Range) { draws.push_back(torch::rand({4})); });
  };
  draw({0, 4}, 0);
  draw({4, 8}, 0);
  draw({0, 4}, 1);
  ASSERT_EQ(draws.size(), 6U);
  for (size_t i = 0; i < draws.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(torch::equal(draws[i], draws[j])) << i << " " << j;
  }
  draw({0, 4}, 0);
  EXPECT_TRUE(torch::equal(draws[6], draws[0])) << "and the same again";
}

}  // namespace
}  // namespace lra
