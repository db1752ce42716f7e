/* idle.c: a program that does nothing: it says so and waits for the end of its input. What it costs is Wine's floor. */
#include <stdio.h>

int main(void)
{
    puts("idle");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
