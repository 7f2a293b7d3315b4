#include "cuda/cubin_recall.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "counted_nvrtc.hpp"
#include "support/temporary_folder.hpp"

using namespace ai::cuda;
using test::CountedNvrtc;
using test::FakeNvrtc;
using test::request;

namespace {

std::vector<RecalledCubin> recall(const CubinStore& store,
                                  const std::vector<CompileRequest>& requests) {
  CountedNvrtc::loads = 0;
  FakeNvrtc::compiled = 0;
  auto outcomes = recall_or_compile(&CountedNvrtc::load, store, requests);
  REQUIRE(outcomes.ok());
  REQUIRE(outcomes->size() == requests.size());
  return std::move(outcomes).value();
}

}  // namespace

TEST_CASE("what the store has is not compiled again, and with all of it NVRTC is not loaded") {
  CountedNvrtc::reset();
  const TemporaryFolder folder;
  const CubinStore store(folder / "kernels");
  CHECK(recall(store, {request("one")})[0].compiled);
  CHECK(CountedNvrtc::loads == 1);
  const auto both = recall(store, {request("two"), request("one")});
  CHECK(both[0].compiled);
  CHECK(both[0].cubin->image == "two");
  CHECK(both[0].cubin->compile_s > 0);
  CHECK_FALSE(both[1].compiled);
  CHECK(both[1].cubin->image == "one");
  CHECK(both[1].cubin->compile_s == 0);
  CHECK(FakeNvrtc::compiled == 1);
  CountedNvrtc::missing = {ai::StatusCode::Unsupported, "gone"};
  for (const auto& outcome : recall(store, {request("one"), request("two")})) {
    CHECK(outcome.cubin.ok());
  }
  CHECK(CountedNvrtc::loads == 0);
  CHECK(recall(store, {}).empty());
}

TEST_CASE("a damaged file is compiled again and replaced") {
  CountedNvrtc::reset();
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  CHECK(recall(store, {request("one")})[0].cubin.ok());
  const std::string key = cubin_key(request("one"));
  std::ofstream(folder / (key + ".cubin"), std::ios::app) << "x";
  REQUIRE(!store.find(key).cubin);
  const auto again = recall(store, {request("one")});
  CHECK(again[0].compiled);
  CHECK(again[0].cubin->image == "one");
  CHECK(store.find(key).cubin.has_value());
}

TEST_CASE("a store that cannot be written is no failure") {
  CountedNvrtc::reset();
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "in the way";
  const CubinStore store(folder / "file/kernels");
  CHECK(recall(store, {request("one")})[0].cubin.ok());
  const auto again = recall(store, {request("one")});
  CHECK(again[0].compiled);
  CHECK(again[0].problem.message().find("file/kernels") != std::string::npos);
}

TEST_CASE("a folder that others may write to is told of, and nothing of it is used") {
  CountedNvrtc::reset();
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  CHECK(recall(store, {request("one")})[0].problem.ok());
  CHECK(recall(store, {request("one")})[0].problem.ok());
  std::filesystem::permissions(folder.path, std::filesystem::perms::group_write,
                               std::filesystem::perm_options::add);
  const auto again = recall(store, {request("one")});
  CHECK(again[0].compiled);
  CHECK(again[0].problem.message().find("others may write to it") != std::string::npos);
}

TEST_CASE("what another NVRTC made is used until this one is loaded, then compiled anew") {
  CountedNvrtc::reset();
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  const int version = recall(store, {request("one")})[0].cubin->nvrtc_version;
  for (const char* name : {"one", "bad"}) {
    Cubin other;
    other.image = "of another";
    other.nvrtc_version = version - 10;
    REQUIRE(store.keep(cubin_key(request(name)), other).ok());
  }
  CHECK(recall(store, {request("one")})[0].cubin->image == "of another");
  CHECK(CountedNvrtc::loads == 0);
  const auto both = recall(store, {request("two"), request("one"), request("one"), request("bad")});
  CHECK(both[1].compiled);
  CHECK(both[1].cubin->image == "one");
  CHECK(both[2].cubin->image == "one");
  CHECK(both[3].cubin->image == "of another");  // this one cannot
  CHECK(FakeNvrtc::compiled == 3);
  CHECK(store.find(cubin_key(request("one"))).cubin->nvrtc_version == version);
}

TEST_CASE("without NVRTC each that is missing says so, and what is there is given") {
  CountedNvrtc::reset();
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  CHECK(recall(store, {request("one")})[0].cubin.ok());
  CountedNvrtc::missing = {ai::StatusCode::Unsupported, "install it"};
  const auto outcomes = recall(store, {request("two"), request("one"), request("three")});
  CHECK(outcomes[1].cubin.ok());
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    CHECK_FALSE(outcomes[i].compiled);
    CHECK(outcomes[i].cubin.status().code() == ai::StatusCode::Unsupported);
    CHECK(outcomes[i].cubin.status().message() == "install it");
  }
  CHECK(CountedNvrtc::loads == 1);
}

TEST_CASE("one that does not compile leaves the others as they are, and is not kept") {
  CountedNvrtc::reset();
  const TemporaryFolder folder;
  const CubinStore store(folder.path.string());
  for (int time = 0; time < 2; ++time) {
    const auto outcomes = recall(store, {request("one"), request("bad"), request("two")});
    CHECK(outcomes[0].cubin.ok());
    CHECK(outcomes[1].compiled);
    CHECK(outcomes[1].cubin.status().message().starts_with("it.cu: nvrtcCompileProgram failed"));
    CHECK(outcomes[2].cubin->image == "two");
    CHECK(FakeNvrtc::compiled == (time == 0 ? 3 : 1));
  }
}

TEST_CASE("equal requests are compiled once, success or not") {
  CountedNvrtc::reset();
  const CubinStore nowhere("");
  const auto outcomes =
      recall(nowhere, {request("one"), request("bad"), request("one"), request("bad")});
  CHECK(FakeNvrtc::compiled == 2);
  CHECK(outcomes[2].cubin->image == "one");
  CHECK_FALSE(outcomes[2].compiled);
  CHECK(outcomes[2].cubin->compile_s == 0);
  CHECK(outcomes[3].cubin.status().message() == outcomes[1].cubin.status().message());
}

TEST_CASE("memory that runs out while a source compiles is that request's failure") {
  CountedNvrtc::reset();
  FakeNvrtc::throws = "create";
  const auto outcomes = recall(CubinStore(""), {request("one")});
  CHECK(outcomes[0].cubin.status().code() == ai::StatusCode::OutOfMemory);
}
