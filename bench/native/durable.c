/* Appends lines to a file and makes each durable before the next, nothing
 * else: the bare cost of what a recorder does. The sizes of the lines come on
 * standard input, one block of them a line; each block is answered by the
 * nanoseconds it took. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
	if (argc != 2) {
		fprintf(stderr, "usage: durable FILE\n");
		return 2;
	}
	int fd = open(argv[1], O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600);
	if (fd < 0) {
		perror("open");
		return 1;
	}
	char *line = NULL;
	size_t room = 0;
	static char text[1 << 20];
	memset(text, 'x', sizeof text);
	while (getline(&line, &room, stdin) > 0) {
		long long took = 0;
		for (char *at = line, *end; ; at = end) {
			long size = strtol(at, &end, 10);
			if (end == at)
				break;
			if (size < 1 || size > (long)sizeof text)
				return 2;
			long long began = now();
			if (write(fd, text, size) != size || fdatasync(fd) != 0) {
				perror("write");
				return 1;
			}
			took += now() - began;
		}
		printf("%lld\n", took);
		fflush(stdout);
	}
	return 0;
}
