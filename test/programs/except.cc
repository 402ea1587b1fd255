// SPDX-License-Identifier: MIT
// Exceptions through many frames, and longjmp over them.
#include <csetjmp>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

struct guard {
    int *count;
    ~guard() { ++*count; }
};

static int unwound;

static int fall(int depth)
{
    guard g{&unwound};
    if (!depth)
        throw std::runtime_error("bottom");
    return fall(depth - 1) + 1;
}

static std::jmp_buf back;

static void jump(int depth)
{
    if (!depth)
        std::longjmp(back, 3);
    jump(depth - 1);
    std::puts("never");
}

int main()
{
    std::vector<std::string> said;
    for (int i = 1; i < 6; i++)
        try {
            fall(i * 3);
        } catch (const std::exception &e) {
            said.push_back(e.what());
        }
    volatile int jumps = 0;
    if (int n = setjmp(back))
        jumps = jumps + n;
    if (jumps < 9)
        jump(5);
    std::printf("%zu %d %d\n", said.size(), unwound, jumps);
}
