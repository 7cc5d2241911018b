#include <cstdio>

constexpr int kThree = 3;
int twice(int a) { return a * 2; }
bool both(bool a, bool b) { return a && b; }
bool same(int a, int b) { return a == b; }
bool opposite(bool a) { return !a; }

int main() {
  std::printf("%d %d %d %d %d", twice(kThree), both(true, false), both(false, true),
              same(kThree, kThree), opposite(true));
}
