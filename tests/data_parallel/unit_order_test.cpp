// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/unit_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_ranks.h"
#include "triax/base/error.h"

namespace triax {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string name_of(int unit) {
  return "unit " + std::to_string(unit);
}

void run_pass(UnitOrder& order,
              Group& ranks,
              int kind,
              const std::vector<int>& units) {
  order.begin_pass(kind);
  for (const int unit : units) {
    order.note_use(unit);
  }
  order.end_pass(ranks, name_of);
}

TEST(UnitOrder, ExpectsTheLastPassOfTheKind) {
  run_ranks(1, [](std::unique_ptr<Group> world) {
    UnitOrder order;
    order.begin_pass(0);
    EXPECT_THAT(order.upcoming({}, 3), IsEmpty());
    order.end_pass(*world, name_of);
    run_pass(order, *world, 0, {0, 0, 1, 2, 1, 0});
    order.begin_pass(1);
    EXPECT_THAT(order.upcoming({}, 3), IsEmpty());
    order.end_pass(*world, name_of);
    order.begin_pass(0);
    EXPECT_THAT(order.upcoming({}, 2), ElementsAre(0, 1));
    order.note_use(0);
    const int in_use = 1;
    EXPECT_THAT(order.upcoming({&in_use, 1}, 2), ElementsAre(2, 0));
    order.note_use(1);
    order.note_use(2);
    EXPECT_THAT(order.upcoming({}, 9), ElementsAre(1, 0));
    order.note_use(5);  // another pass than the last one
    EXPECT_THAT(order.upcoming({}, 9), IsEmpty());
    order.end_pass(*world, name_of);
    EXPECT_THAT(order.upcoming({}, 9), IsEmpty());
  });
}

TEST(UnitOrder, NamesTheFirstDifferenceBetweenRanks) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    UnitOrder order;
    run_pass(order, *world, 0, {0, 1});
    const std::vector<int> mine =
        world->rank() == 0 ? std::vector<int>{0, 1} : std::vector<int>{0};
    try {
      run_pass(order, *world, 0, mine);
      ADD_FAILURE() << "not compared";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("rank 0 used unit 1 where rank 1 used "
                                     "none (use 2 of this pass)"));
    }
  });
}

}  // namespace
}  // namespace triax
