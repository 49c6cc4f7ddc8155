-- Version 5: a change of a record tells before which removals its files were put.

-- As change_record_1, which goes on for programs of the release before. `p_put_after` says how many removals were over before the files
-- were put that the record did not name yet.
create function change_record_2(
    p_change uuid, p_kind text, p_key text, p_expected bigint, p_value bytea, p_files bytea[], p_put_after bigint,
    out o_done bigint, out o_found bigint, out o_value bytea
) language plpgsql as $$
begin
    -- One that names no files was put after whatever.
    perform set_config('skill_runner.put_after', case when cardinality(p_files) > 0 then p_put_after::text else '' end, true);
    select done.o_done, done.o_found, done.o_value into o_done, o_found, o_value
    from change_record_1(p_change, p_kind, p_key, p_expected, p_value, p_files) as done;
    perform set_config('skill_runner.put_after', '', true);
end
$$;
