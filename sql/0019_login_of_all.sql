-- Who did it, in every row: 0008 has it from those commands that say it themselves. All of seckillctl's connections are
-- called "seckillctl USER@HOST" (src/daemon/ctl/ctl.c), also behind a pooler; others leave it NULL.
ALTER TABLE operator_actions
    ALTER COLUMN login SET DEFAULT substring(current_setting('application_name') FROM '^seckillctl (.+)$');
