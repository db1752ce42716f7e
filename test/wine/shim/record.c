/* record.exe: stands under the names of programs that Wine has and that do nothing there but say yes: powershell, netsh, icacls, dism and so on.
 *
 * Stands in for: nothing. Whoever starts one of them is told to the machine's hardware with the whole command line, and gets 1 as exit code.
 * Under the name shutdown.exe it presses the power button instead, and gets 0.
 * Invents: nothing. */
#include "bed.h"

int main(void)
{
    char *line = bed_utf8(GetCommandLineW()), *answer;
    size_t size = strlen(line) + 16;
    char *message = malloc(size);
    int code = 1;

    snprintf(message, size, "started\n%s", line);
    answer = bed_call(message);
    if (answer) code = atoi(answer);
    else fprintf(stderr, "nobody answers at the machine's hardware\n");
    return code;
}
