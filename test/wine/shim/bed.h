/* bed.h: how a shim talks to the machine's hardware.
 *
 * Stands in for: whatever on a real machine lies below Windows' user mode: the virtual switch of HNS, the firewall's filter engine, the
 * component store of DISM, the power button. The program that powers the machine on listens on 127.0.0.1:4747 of the machine's own
 * network; see test/wine/hardware.go.
 * Invents: the protocol. A message is a length (32 bits, little endian) and so many bytes of UTF-8: a verb and its arguments, each on a line
 * of its own, of which the last may hold line ends. The answer is a length and a text. One connection carries one message. */
#ifndef BED_H
#define BED_H
#include <winsock2.h>
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BED_PORT 4747
#define BED_LONGEST (64u << 20)

static char *bed_utf8(const WCHAR *text)
{
    int size;
    char *out;

    if (!text) text = L"";
    size = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    out = malloc(size);
    WideCharToMultiByte(CP_UTF8, 0, text, -1, out, size, NULL, NULL);
    return out;
}

static BOOL bed_move(SOCKET s, char *buffer, int size, BOOL out)
{
    while (size > 0)
    {
        int n = out ? send(s, buffer, size, 0) : recv(s, buffer, size, 0);
        if (n <= 0) return FALSE;
        buffer += n;
        size -= n;
    }
    return TRUE;
}

static BOOL bed_exchange(SOCKET s, char *message, char **answer)
{
    struct sockaddr_in to = {0};
    unsigned int size = (unsigned int)strlen(message);

    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(BED_PORT);
    if (connect(s, (struct sockaddr *)&to, sizeof to)) return FALSE;
    if (!bed_move(s, (char *)&size, 4, TRUE) || !bed_move(s, message, (int)size, TRUE)) return FALSE;
    if (!bed_move(s, (char *)&size, 4, FALSE) || size > BED_LONGEST) return FALSE;
    *answer = malloc(size + 1);
    (*answer)[size] = 0;
    if (bed_move(s, *answer, (int)size, FALSE)) return TRUE;
    free(*answer);
    *answer = NULL;
    return FALSE;
}

/* bed_call returns the answer, which the caller frees, or NULL when nobody answers. */
static char *bed_call(char *message)
{
    WSADATA data;
    char *answer = NULL;
    SOCKET s;

    if (WSAStartup(MAKEWORD(2, 2), &data)) return NULL;
    s = socket(AF_INET, SOCK_STREAM, 0);
    if (s != INVALID_SOCKET)
    {
        if (!bed_exchange(s, message, &answer)) answer = NULL;
        closesocket(s);
    }
    WSACleanup();
    return answer;
}

#endif
