/* The built-in subcommands. argv[0] is the subcommand's name; the return value is the exit code. */
#ifndef ATTN_CLI_COMMANDS_H
#define ATTN_CLI_COMMANDS_H

int cmd_eval(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_verify(int argc, char **argv);

#endif
