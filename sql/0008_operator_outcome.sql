-- How an operator's action ended. A row is written as STARTED before anything is done and gets its end after: one that
-- stays STARTED is of a command that died, and how far it came is not known. The actions that are one statement note
-- themselves in it, as DONE. login is who the command said it was run by (user@host); operator is the database's word.
ALTER TABLE operator_actions
    ADD COLUMN login       TEXT,
    ADD COLUMN outcome     VARCHAR(16) COLLATE "C" NOT NULL DEFAULT 'DONE',
    ADD COLUMN finished_at TIMESTAMPTZ,
    ADD CONSTRAINT ck_operator_actions_outcome
        CHECK (outcome IN ('STARTED', 'DONE', 'NOTHING', 'REFUSED', 'FAILED', 'UNKNOWN')) NOT VALID;
